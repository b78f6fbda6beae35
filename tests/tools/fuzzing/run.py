"""Coverage-guided fuzzing of everything that parses: ``python -m tests.tools.fuzzing.run MINUTES [TARGET ...]``.

Builds the kernels with coverage below ``target/coverage``, shares the time out among the targets, and keeps of what was
found only what reaches more code, in ``tests/corpus``. Ends with 1 if an input did harm; it is then in
``target/coverage/found``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.tools.fuzzing import corpus

ROOT = Path(__file__).parents[3]
WORK = ROOT / "target/coverage"
FLAGS = "-O1 -fsanitize-coverage=trace-pc,trace-cmp"
#: In the order of the table that is printed; those with more code get more time.
SHARES = {"file": 3, "schema": 2, "index": 1, "bucket": 3, "pages": 2, "companion": 2, "cfile": 3, "array_block": 2}
SHARES |= {"commit": 1, "where": 2}
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 1)


def build() -> dict[str, str]:
    """The environment in which the instrumented package is imported."""
    home = WORK / "build"
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".pyx", ".pxd", ".py", ".java")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources) if path.suffix != ".py")).hexdigest()
    mark = home / f"built-{digest[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        ROOT / "src", home / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    )
    if not mark.exists():
        print(">> building kernels with coverage", flush=True)
        for name in ("setup.py", "pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, home / name)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=home, env={**plain, "SMALTI_CFLAGS": FLAGS}, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr.decode()[-4000:])
        for old in home.glob("built-*"):
            old.unlink()
        mark.touch()
    for name, more in (("bridge", []), ("alone", ["-DALONE"])):
        library = ["-shared", "-fPIC", "-o", str(WORK / f"{name}.so"), str(Path(__file__).parent / "bridge.c")]
        subprocess.run(["cc", "-O2", "-Wall", *more, *library], check=True)
    paths = os.pathsep.join(filter(None, [str(home / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "SMALTI_BRIDGE": str(WORK / "bridge.so")}


def gather(name: str) -> Path:
    """A directory with what a target begins with: seeds, the corpus of the repository, and what earlier runs found."""
    from tests.tools.fuzzing.targets import seeds

    home = WORK / "inputs" / name
    home.mkdir(parents=True, exist_ok=True)
    for data in (*seeds(name), *corpus.load(name).values()):
        (home / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return home


def fuzz(name: str, seconds: int, environment: dict[str, str]) -> dict[str, Any]:
    inputs, found = gather(name), WORK / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    arguments = [
        f"-max_total_time={seconds}",
        "-max_len=8192",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        "-use_value_profile=1",
        "-verbosity=1",
        f"-artifact_prefix={found}/",
    ]
    before = set(found.iterdir())
    with (WORK / f"{name}.log").open("w") as log:
        child = [sys.executable, "-m", "tests.tools.fuzzing.child", name, str(inputs), *arguments]
        libfuzzer = Path(importlib.util.find_spec("atheris").origin).parent.parent / "ubsan_with_fuzzer.so"  # type: ignore
        # The kernels find the bridge's function before libFuzzer's of the same name, which says that it is of no use.
        preloaded = {**environment, "LD_PRELOAD": f"{WORK / 'bridge.so'}:{libfuzzer}"}
        done = subprocess.run(child, cwd=ROOT, env=preloaded, stdout=log, stderr=log, check=False)
    text = (WORK / f"{name}.log").read_text(errors="replace")
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    return {
        "executions": int(executed[1]) if executed else 0,
        "harm": sorted(str(path) for path in set(found.iterdir()) - before),
        "code": done.returncode,
        "log": text[-3000:],
    }


def minimise(name: str, environment: dict[str, str]) -> dict[str, Any]:
    """Keep of all inputs those that reach more, here and in the repository."""
    kept = WORK / "kept" / name
    shutil.rmtree(kept, ignore_errors=True)
    command = [sys.executable, "-m", "tests.tools.fuzzing.measure", name, str(WORK / "inputs" / name), str(kept)]
    alone = {**environment, "SMALTI_BRIDGE": str(WORK / "alone.so")}
    done = subprocess.run(command, cwd=ROOT, env=alone, stdout=subprocess.PIPE, check=True)
    corpus.save(name, {path.name[:12]: path.read_bytes() for path in kept.iterdir()})
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def all_places() -> int:
    """The places in all kernels that are counted."""
    count = 0
    for kernel in (WORK / "build/src").rglob("*.so"):
        code = subprocess.run(["objdump", "-d", str(kernel)], capture_output=True, text=True, check=True).stdout
        count += len(re.findall(r"call\s.*<__sanitizer_cov_trace_pc", code))
    return count


def main(minutes: str, *names: str) -> int:
    environment = build()
    chosen = names or tuple(SHARES)
    total = 60 * float(minutes) * min(JOBS, len(chosen)) / sum(SHARES[name] for name in chosen)
    began = time.monotonic()
    with ThreadPoolExecutor(JOBS) as pool:
        runs = {name: pool.submit(fuzz, name, max(5, int(total * SHARES[name])), environment) for name in chosen}
        results = {name: run.result() for name, run in runs.items()}
        measures = dict(zip(chosen, pool.map(lambda name: minimise(name, environment), chosen), strict=True))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes; {all_places():,} places in the kernels")
    print(f"{'target':<12} {'executions':>12} {'inputs':>8} {'kept':>6} {'bytes':>8} {'places':>8} {'lines':>7}  harm")
    for name in chosen:
        run, seen = results[name], measures[name]
        print(
            f"{name:<12} {run['executions']:>12,} {seen['inputs']:>8,} {seen['kept']:>6,} {seen['bytes']:>8,} "
            f"{seen['places']:>8,} {seen['lines']:>7,}  {', '.join(run['harm']) or 'none'}"
        )
        if run["code"]:
            print(run["log"])
    print(f"{sum(run['executions'] for run in results.values()):,} executions")
    return 1 if any(run["code"] for run in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
