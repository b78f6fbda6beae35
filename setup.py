"""Compiles the Cython kernels; everything else about the package is in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,  # switched off loop by loop, where the length was proven above
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "auto_pickle": False,  # kernels hold pointers
    "autotestdict": False,
    "embedsignature": True,
    "embedsignature.format": "python",
}

kernels = sorted(Path("src").glob("smalti/**/*.pyx"))

setup(
    ext_modules=cythonize(
        [
            Extension(
                ".".join(path.relative_to("src").with_suffix("").parts),
                [str(path)],
                extra_compile_args=["-O3", "-Wno-unused-function", "-Wno-unreachable-code"],
            )
            for path in kernels
        ],
        compiler_directives=DIRECTIVES,
        include_path=["src"],
        nthreads=0,
    ),
)
