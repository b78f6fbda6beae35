# Every target sets up .venv by itself and works from a clean clone.
PYTHON ?= python3
VENV   := .venv
PAIMON := $(VENV)/paimon
LOADERS := $(VENV)/loaders
OLDEST := $(VENV)/oldest
OLDEST_PYARROW := 18.0.0
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
KERNELS := $(shell find src -name '*.pyx' -o -name '*.pxd')
# Compiled kernels are kept here by what they are made from, so that only a changed one is compiled again.
export SMALTI_BUILD_CACHE ?= $(CURDIR)/build/kernels
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
# Tests wait for processes and servers half of the time, so there is one worker more than there are cores.
WORKERS ?= $(shell expr $(JOBS) + 1)

.PHONY: help demo bench-paimon test test-long test-paimon test-oldest test-spark test-loaders test-package test-arm wheel lint docs bench bench-full fuzz fuzz-coverage races test-asan faults flips soak clean browser
.DELETE_ON_ERROR:

help:
	@echo "make demo   run the main job on a wide table and show the result"
	@echo "make test   lint, type-check and test"
	@echo "make lint   ruff, mypy, stubtest"
	@echo "make test-long  the tests in their long forms (half an hour)"
	@echo "make test-spark SPARK=4.2.1  the Spark tests with another version of Spark"
	@echo "make wheel  build sdist and wheel in dist/, for this Python and manylinux"
	@echo "make test-package  install sdist and wheel in fresh environments, with dependencies from the network"
	@echo "make test-loaders  the loader with PyTorch, datasets of Hugging Face, Ray and JAX, in an environment of its own (some GB)"
	@echo "make test-paimon  the tests with pypaimon, in an environment with its pyarrow (part of make test)"
	@echo "make test-oldest  all tests on the oldest pyarrow, and on pypaimon's (half an hour)"
	@echo "make docs   build the documentation in docs/_build/html"
	@echo "make bench  measure against the reference, Parquet and others (forty minutes, Spark included; make bench-full: everything)"
	@echo "make bench-paimon  pypaimon with and without smalti inside"
	@echo "make fuzz   corruption sweeps and property tests, longer than in the tests and different each time"
	@echo "make test-arm  the core tests on ARM, emulated (Debian 12, as root; 20 minutes)"
	@echo "make test-asan  what attacks the kernels, with AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make fuzz-coverage FUZZ_MINUTES=60  libFuzzer over everything that parses, guided by the coverage of kernels and Python"
	@echo "make flips  every byte of five kinds of files changed in nine ways (a minute)"
	@echo "make races  jobs that change one table at the same time, as processes, for a quarter of an hour"
	@echo "make faults every step of writes, reads and commits fails once, in every way, on disk and on S3 (a quarter of an hour)"
	@echo "make soak MINUTES=30  ordinary work at random in one process; memory, descriptors and leftovers must not grow"
	@echo "make clean  remove everything that was built"

$(BIN)/python:
	@echo ">> creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip

# What smalti itself needs, as pyproject.toml says.
RUNTIME = $$($(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'])")

# $(call set-up,GROUPS): the kernels are compiled while pip fetches and unpacks the packages of dependency groups. Python
# compiles what it imports when it does, which is a small part of what pip would compile here.
define set-up
	@$(PIP) --no-compile --group build
	@mkdir -p build; $(BIN)/python setup.py -q build_ext --inplace >build/kernels.log 2>&1 & kernels=$$!; \
		$(PIP) --no-compile $(1:%=--group %) $(RUNTIME) || { kill $$kernels; exit 1; }; \
		wait $$kernels || { tail -30 build/kernels.log; exit 1; }
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
endef

# The package is installed editable: only a changed kernel or build file asks for a rebuild.
$(VENV)/.installed: pyproject.toml setup.py $(KERNELS) | $(BIN)/python
	@echo ">> installing smalti and its development tools, compiling the kernels (a minute the first time)"
	$(call set-up,dev)

# The demo needs less than the tests.
$(VENV)/.demo: pyproject.toml setup.py $(KERNELS) | $(BIN)/python
	@echo ">> installing smalti and Spark, compiling the kernels (a minute the first time)"
	$(call set-up,spark)

$(VENV)/.docs: $(VENV)/.installed
	@echo ">> installing the documentation's generator"
	@$(PIP) --group docs
	@touch $@

# The reference's first release. Today's files are read by it too, in a process of its own.
$(VENV)/reference-0.1.0: $(VENV)/.installed
	@$(PIP) --no-compile --no-deps --upgrade --target $@ paimon-mosaic==0.1.0
	@touch $@

# pyspark has half a gigabyte, so that the environments share its files.
$(PAIMON)/.installed: $(VENV)/.installed
	@echo ">> installing pypaimon beside a pyarrow that it accepts"
	@$(PYTHON) -m venv --without-pip $(PAIMON)
	@for part in $$(cd $(VENV) && ls -d lib/python*/site-packages/pyspark lib/python*/site-packages/pyspark-*); do \
		test -e $(PAIMON)/$$part || cp -al $(VENV)/$$part $(PAIMON)/$$part 2>/dev/null || cp -R $(VENV)/$$part $(PAIMON)/$$part; done
	@$(BIN)/python -m pip --python $(PAIMON)/bin/python install --quiet --no-compile --group paimon $(RUNTIME)
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m smalti "$$@"\n' >$(PAIMON)/bin/smalti
	@chmod +x $(PAIMON)/bin/smalti
	@touch $@

$(OLDEST)/.installed: $(VENV)/.installed
	@echo ">> installing pyarrow $(OLDEST_PYARROW)"
	@$(PYTHON) -m venv --without-pip $(OLDEST)
	@$(BIN)/python -m pip --python $(OLDEST)/bin/python install --quiet --group test --group spark $(RUNTIME) pyarrow==$(OLDEST_PYARROW)
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	@echo ">> installing the benchmark's peers"
	@$(PIP) --group bench
	@touch $@

demo: $(or $(wildcard $(VENV)/.installed),$(VENV)/.demo)
	@echo ">> running the demo"
	@$(BIN)/python examples/demo.py

lint: $(VENV)/.installed
	@echo ">> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo ">> mypy"
	@$(BIN)/mypy
	@echo ">> stubtest (kernels against their stubs)"
	@$(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist .stubtest-allowlist --ignore-unused-allowlist smalti._core smalti.kudu._kernels smalti.jobs._sketch

# The report is tried in Debian's Chromium. Where it cannot be installed, those tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		echo ">> installing Chromium"; \
		(apt-get update -qq && apt-get install -y -qq chromium chromium-driver) >/dev/null 2>&1 || echo ">> no Chromium: its tests will be skipped"; }

docs: $(VENV)/.docs
	@echo ">> generated parts"
	@$(BIN)/python docs/generate.py
	@echo ">> sphinx"
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html
	@echo ">> docs/_build/html/index.html"

# Installing, compiling, linting and downloading at the same time; what each says is shown when it is done.
test:
	@echo ">> setting up, and lint"
	@$(MAKE) --no-print-directory -j4 --output-sync lint browser $(PAIMON)/.installed $(VENV)/reference-0.1.0
	@echo ">> pytest; beside it the tests with pypaimon, shown at the end"
	@$(MAKE) --no-print-directory test-paimon >build/paimon.log 2>&1 & paimon=$$!; \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup; status=$$?; \
		wait $$paimon || status=$$?; cat build/paimon.log; exit $$status

# The long forms of the same tests: more examples, more rounds, all of TPC-H, the benchmark of Spark in short.
test-long: $(PAIMON)/.installed $(VENV)/reference-0.1.0 browser
	@echo ">> pytest, in the long form"
	@SMALTI_LONG=1 SMALTI_RACES=5 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# pypaimon allows no newer pyarrow than 19, so its tests have an environment of their own.
test-paimon: $(PAIMON)/.installed
	@echo ">> pytest, with pypaimon"
	@PYTHONPATH=$(CURDIR)/src $(PAIMON)/bin/python -m pytest -q -n $(JOBS) --dist loadgroup -k paimon tests/paimon \
		tests/compat/test_paimon.py tests/table/test_paimon_layout.py tests/docs/test_blocks.py tests/docs/test_doctests.py

# PyTorch's package has gigabytes for graphics cards, so the frameworks have an environment of their own.
$(LOADERS)/.installed: $(VENV)/.installed
	@echo ">> installing PyTorch, datasets, Ray and JAX (some gigabytes)"
	@$(PYTHON) -m venv --without-pip $(LOADERS)
	@$(BIN)/python -m pip --python $(LOADERS)/bin/python install --quiet --no-compile --group loaders $(RUNTIME)
	@touch $@

test-loaders: $(LOADERS)/.installed
	@echo ">> pytest, with frameworks for training"
	@PYTHONPATH=$(CURDIR)/src $(LOADERS)/bin/python -m pytest -q -n 0 -rs tests/loading
	@PYTHONPATH=$(CURDIR)/src $(LOADERS)/bin/python -m pytest -q -n 0 tests/docs/test_blocks.py -k training

# Spark's tests run in pypaimon's environment; those with s3fs do not, which clashes with the fsspec that pypaimon pins.
# Building the package and drawing pages has nothing to do with pyarrow.
APART := --ignore tests/report --ignore tests/docs --ignore tests/test_package.py
test-oldest: $(OLDEST)/.installed $(PAIMON)/.installed
	@echo ">> pytest, on pyarrow $(OLDEST_PYARROW)"
	@PYTHONPATH=$(CURDIR)/src $(OLDEST)/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup --ignore tests/spark \
		--ignore tests/benchmarks/test_benchmarks.py $(APART)
	@echo ">> pytest, on pypaimon's pyarrow"
	@PYTHONPATH=$(CURDIR)/src $(PAIMON)/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup $(APART) \
		--ignore tests/io/test_stores.py --ignore tests/benchmarks

# make test-spark SPARK=4.2.1: the Spark tests with a version other than the one they usually run with.
test-spark: $(VENV)/.installed
	@test -n "$(SPARK)" || { echo "which version? make test-spark SPARK=4.2.1"; exit 1; }
	@echo ">> Spark $(SPARK)"
	@test -d $(VENV)/spark-$(SPARK) || $(PIP) --no-deps --target $(VENV)/spark-$(SPARK) pyspark==$(SPARK)
	@PYTHONPATH=$(CURDIR)/$(VENV)/spark-$(SPARK) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup tests/spark tests/jobs/test_spark_engine.py

# The wheel is built from the sdist, so that a file that is missing from it is noticed. auditwheel then names the oldest
# Linux that it runs on.
wheel: $(BIN)/python
	@echo ">> building sdist and wheel"
	@$(PIP) --group wheel
	@rm -rf dist build/wheels
	@mkdir -p build && PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m build --outdir build/wheels . >build/wheel.log 2>&1 \
		|| { tail -30 build/wheel.log; exit 1; }
	@mkdir -p dist && cp build/wheels/*.tar.gz dist/
	@if [ "$$(uname)" = Linux ]; then PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*.whl; \
		else cp build/wheels/*.whl dist/; fi
	@ls -l dist

test-package: wheel
	@for made in dist/*.whl dist/*.tar.gz; do \
		echo ">> $$made in a fresh environment"; \
		rm -rf build/fresh && $(PYTHON) -m venv build/fresh && \
		build/fresh/bin/python -m pip install --quiet --disable-pip-version-check "$$made" && \
		(cd / && $(CURDIR)/build/fresh/bin/python -I $(CURDIR)/tests/tools/smoke.py) || exit 1; done

bench: $(VENV)/.bench
	@echo ">> tests of the benchmark, with those that draw charts"
	@SMALTI_LONG=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup tests/benchmarks
	@echo ">> running the benchmark"
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks --layouts
	@$(BIN)/python docs/generate.py
	@$(BIN)/python -m benchmarks.remote
	@$(BIN)/python -m benchmarks.floor
	@$(BIN)/python -m benchmarks.tables
	@$(BIN)/python -m benchmarks.doors
	@$(BIN)/python -m benchmarks.rows
	@$(BIN)/python -m benchmarks.spark

bench-paimon: $(PAIMON)/.installed
	@PYTHONPATH=$(CURDIR)/src $(PAIMON)/bin/python -m benchmarks.paimon

bench-full: bench
	@echo ">> running the larger plans too (an hour more)"
	@$(BIN)/python -m benchmarks --full

fuzz: $(VENV)/.installed
	@echo ">> corruption sweeps (a minute)"
	@$(BIN)/python -m tests.tools.fuzz
	@echo ">> arrays of more than 2 GiB (half a minute)"
	@SMALTI_LARGE=1 $(BIN)/python -m pytest -q tests/file/test_writer.py -k more_than_an_array
	@echo ">> property tests with new examples (about five minutes)"
	@$(BIN)/python -m pytest -q -n $(JOBS) -m hypothesis --hypothesis-profile explore -o timeout=1800

# The kernels with AddressSanitizer and UndefinedBehaviorSanitizer (gcc), in a directory of their own, and what attacks
# them: goldens, malformed files, corruption, slices, hostile Arrow data, the corpus of the fuzzers. Python's own
# allocator is left out, so that each of its objects is watched as well.
ASAN   := build/asan
ASAN_TESTS := tests/format/test_golden.py tests/format/test_malformed.py tests/format/test_corruption.py tests/test_memory.py \
	tests/file/test_inspection.py tests/format/test_encodings.py tests/tools/fuzzing/test_corpus.py tests/kudu/test_corruption.py \
	tests/kudu/test_parts.py
test-asan: $(VENV)/.installed
	@echo ">> kernels with sanitizers, in $(ASAN)"
	@SMALTI_CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" \
		$(BIN)/python setup.py -q build --build-base $(ASAN) --build-lib $(ASAN)/lib >$(VENV)/asan.log 2>&1 || { tail -20 $(VENV)/asan.log; exit 1; }
	@echo ">> tests"
	@LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32 UBSAN_OPTIONS=print_stacktrace=1 \
		PYTHONPATH=$(CURDIR)/$(ASAN)/lib:$(CURDIR) $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider -o timeout=3600 \
		$(wildcard $(ASAN_TESTS))

# The tests of one file's bytes, on the emulated processor; no Spark, no servers.
ARM_TESTS := tests/format/test_golden.py tests/format/test_malformed.py tests/format/test_encodings.py tests/file/test_round_trips.py \
	tests/file/test_reader.py tests/format/test_corruption.py tests/logical/test_nesting.py tests/predicate/test_filters.py \
	tests/file/test_inspection.py tests/tools/fuzzing/test_corpus.py
test-arm: $(VENV)/.installed
	@echo ">> wheel for ARM, and tests under emulation, in build/arm"
	@tests/tools/arm.sh $(CURDIR)/$(BIN)/python -q -n 0 -o timeout=3600 $(wildcard $(ARM_TESTS))

# libFuzzer comes with atheris; the kernels are built with gcc's coverage below target/coverage.
FUZZ_MINUTES ?= 60
$(VENV)/.atheris: $(VENV)/.installed
	@$(PIP) atheris
	@touch $@

fuzz-coverage: $(VENV)/.atheris
	@echo ">> coverage-guided fuzzing, $(FUZZ_MINUTES) minutes"
	@JOBS=$(JOBS) $(BIN)/python -m tests.tools.fuzzing.run $(FUZZ_MINUTES)

MINUTES ?= 30
soak: $(VENV)/.installed
	@echo ">> ordinary work at random, $(MINUTES) minutes"
	@$(BIN)/python -m tests.tools.soak $(MINUTES)

flips: $(VENV)/.installed
	@echo ">> every byte of five kinds of files changed in nine ways (a minute)"
	@$(BIN)/python -m tests.tools.flips

races: $(VENV)/.installed $(PAIMON)/.installed
	@echo ">> pairs of jobs that change one table at the same time, 100 rounds each, and each held at every step (40 minutes)"
	@SMALTI_RACES=100 $(BIN)/python -m pytest -q -n 0 tests/table/test_races.py -o timeout=3600
	@SMALTI_RACES=100 PYTHONPATH=$(CURDIR)/src $(PAIMON)/bin/python -m pytest -q -n 0 tests/paimon/test_spark.py -k killed

faults: $(VENV)/.installed
	@echo ">> every step of writes, reads and commits fails, in every way (a quarter of an hour)"
	@SMALTI_FAULTS=1 $(BIN)/python -m pytest -q -s -n 0 tests/faults -o timeout=3600

clean:
	rm -rf $(VENV) build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find src -name '*.so' -delete -o -name '*.c' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
