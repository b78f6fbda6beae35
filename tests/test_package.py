"""The package as it is shipped: sdist and wheel, each installed without the checkout, write and read.

Kernels come from the cache that `make` fills (see setup.py), built for this version of Python; without it they are
compiled here, which takes minutes. `make test-package` does the same with the limited API, and with
dependencies from the network.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import smalti
from tests.support.children import ROOT

pytestmark = [
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: which files belong to it is unknown"),
    pytest.mark.timeout(3600),
]
#: What pip would bring along: linked from this environment, so that the test needs no network.
RUNTIME = ("pyarrow", "zstandard", "google_crc32c")
BUILD = ("setuptools", "Cython", "pkg_resources", "_distutils_hack")


def environment(**more: str) -> dict[str, str]:
    cache = os.environ.get("SMALTI_BUILD_CACHE") or str(ROOT / "build" / "kernels")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "SMALTI_BUILD_CACHE": cache, "SMALTI_ABI3": "0", **more}


def sources(target: Path) -> Path:
    """The files of the checkout that git knows or would take, copied: no kernels that were compiled here."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        is_left_out = name.startswith(("tests/", "docs/", "benchmarks/")) and name != "tests/tools/smoke.py"
        if name and not is_left_out and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def build(hook: str, tree: Path, target: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """What a build frontend does: call the backend in the source tree."""
    script = f"import sys; from setuptools import build_meta; print(build_meta.build_{hook}(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(target)]
    return subprocess.run(
        command, cwd=tree, env=environment(**more), capture_output=True, text=True, check=False, timeout=3500
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel that is built from nothing but the sdist."""
    root = tmp_path_factory.mktemp("package")
    done = build("sdist", sources(root / "tree"), root)
    assert done.returncode == 0, done.stderr[-3000:]
    (sdist,) = root.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(root / "unpacked", filter="data")
    (unpacked,) = (root / "unpacked").iterdir()
    done = build("wheel", unpacked, root)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = root.glob("*.whl")
    return sdist, wheel


def linked(directory: Path, distributions: tuple[str, ...]) -> None:
    """Make packages of this environment visible in another, and nothing else of it."""
    for entry in (Path(folder) for folder in sys.path if folder.endswith("-packages")):
        for name in distributions:
            patterns = (name, f"{name}-*", f"{name}.libs", f"{name.lower()}-*", "_cffi_backend*", "cython.py")
            for found in [path for pattern in patterns for path in entry.glob(pattern)]:
                link = directory / found.name
                if not link.exists():
                    link.symlink_to(found)


def fresh(root: Path, *distributions: str) -> Path:
    """The interpreter of a new environment with some packages and no pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    linked(site, distributions)
    return root / "bin" / "python"


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_installed_without_the_checkout_it_works(made: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    file = made[kind == "wheel"]
    python = fresh(tmp_path / "venv", *RUNTIME, *(BUILD if kind == "sdist" else ()))
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*install, "--no-build-isolation", str(file)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    smoke = shutil.copy(ROOT / "tests/tools/smoke.py", tmp_path)
    command = [str(python), "-I", smoke]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"smalti {smalti.__version__} works\n"


def test_without_kernels_nothing_is_built(tmp_path: Path) -> None:
    tree = sources(tmp_path / "tree")
    for path in tree.glob("src/**/*.pyx"):
        path.unlink()
    done = build("wheel", tree, tmp_path)
    assert done.returncode != 0
    assert "no kernels" in done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_what_is_inside(made: tuple[Path, Path]) -> None:
    sdist, wheel = made
    with tarfile.open(sdist) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    found = [path for suffix in ("pyx", "pxd") for path in (ROOT / "src").glob(f"**/*.{suffix}")]
    kernels = {str(path.relative_to(ROOT)) for path in found}
    assert kernels <= shipped
    assert {"LICENSE", "NOTICE", "SECURITY.md", "tests/tools/smoke.py"} <= shipped
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    known = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    sources = {name for name in known if (ROOT / name).is_file()}
    assert sources <= shipped
    with zipfile.ZipFile(wheel) as file:
        names, sizes = file.namelist(), {info.filename: info.file_size for info in file.infolist()}
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    written = {kernel.removeprefix("src/")[:-4] for kernel in kernels if kernel.endswith(".pyx")}
    assert compiled == written | {"smalti/_core/_shared"}
    assert {name.removeprefix("src/") for name in sources if not name.endswith(".pyx")} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".pyx"))]
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]
    # With symbols these were 18 MB; with Cython's code for memoryviews in each of ten kernels, 3 MB.
    assert sum(size for name, size in sizes.items() if name.endswith(".so")) < 2 << 20


def test_the_version_is_said_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", smalti.__version__)
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert not re.search(r"^version *=.*\d", project, re.MULTILINE)
    assert importlib.metadata.version("smalti")
