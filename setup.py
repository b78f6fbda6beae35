"""Compiles the Cython kernels; everything else about the package is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,  # of memoryviews; loops over pointers carry their own proofs
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "auto_pickle": False,  # kernels hold pointers
    "autotestdict": False,
    "embedsignature": True,
    "embedsignature.format": "python",
}
#: `SMALTI_CFLAGS` adds what an instrumented build needs; the last one of contradicting flags counts.
FLAGS = ["-O3", "-Wno-unused-function", "-Wno-unreachable-code", *os.environ.get("SMALTI_CFLAGS", "").split()]
CORES = os.cpu_count() or 1


def kernels() -> list[Extension]:
    paths = sorted(Path("src").glob("smalti/**/*.pyx"))
    names = [".".join(path.relative_to("src").with_suffix("").parts) for path in paths]
    return [Extension(name, [str(path)], extra_compile_args=FLAGS) for name, path in zip(names, paths, strict=True)]


if __name__ == "__main__":
    setup(
        ext_modules=cythonize(kernels(), compiler_directives=DIRECTIVES, include_path=["src"], nthreads=CORES),
        options={"build_ext": {"parallel": CORES}},
    )
