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
FLAGS = ["-O3", "-Wno-unused-function", "-Wno-unreachable-code"]
#: `make test-asan` builds the kernels so that they stop at the first byte outside an object, and at undefined behaviour.
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CORES = os.cpu_count() or 1


def kernels() -> list[Extension]:
    paths = sorted(Path("src").glob("smalti/**/*.pyx"))
    names = [".".join(path.relative_to("src").with_suffix("").parts) for path in paths]
    checked = SANITIZERS if os.environ.get("SMALTI_SANITIZE") else []
    flags = [*FLAGS, *checked, "-O1", "-g", "-fno-omit-frame-pointer"] if checked else FLAGS
    return [
        Extension(name, [str(path)], extra_compile_args=flags, extra_link_args=checked)
        for name, path in zip(names, paths, strict=True)
    ]


if __name__ == "__main__":
    setup(
        ext_modules=cythonize(kernels(), compiler_directives=DIRECTIVES, include_path=["src"], nthreads=CORES),
        options={"build_ext": {"parallel": CORES}},
    )
