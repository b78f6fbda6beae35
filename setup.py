"""Compiles the Cython kernels; everything else about the package is in pyproject.toml.

`SMALTI_CFLAGS` adds flags for the compiler, such as those of a sanitizer, and keeps symbols.
Wheels are built for the limited API of Python 3.11, one for all versions; with `SMALTI_ABI3=0` for the version that
builds them, as editable installs are.
`SMALTI_BUILD_CACHE=DIRECTORY` keeps translated and compiled kernels there, and takes unchanged ones from there.
"""

import hashlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler.Version import version as cython_version
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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
#: Kernels that take typed memoryviews have Cython's code for them in common, as a kernel of its own: 200 kB and three
#: seconds of the compiler once, not ten times.
SHARED = "smalti._core._shared"
#: `SMALTI_CFLAGS` adds what an instrumented build needs; the last one of contradicting flags counts.
MORE_FLAGS = os.environ.get("SMALTI_CFLAGS", "").split()
#: Kernels whose loops have so few instructions that they take up to half longer if they happen to cross a 32-byte
#: boundary. Unrolled loops do not.
UNROLLED = {f"smalti._core.{name}" for name in ("decode", "encode", "feed", "values")}
CORES = os.cpu_count() or 1
CACHE = os.environ.get("SMALTI_BUILD_CACHE")
#: In a checkout, kernels of an older build would be preferred to these.
ABI3 = (
    "bdist_wheel" in sys.argv
    and os.environ.get("SMALTI_ABI3") != "0"
    and not MORE_FLAGS
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
#: What the limited API has under another name: functions, where Python itself has macros.
LIMITED_API = [
    ("Py_LIMITED_API", "0x030B0000"),
    ("PyBytes_AS_STRING", "PyBytes_AsString"),
    ("PyBytes_GET_SIZE", "PyBytes_Size"),
]


def kernels() -> list[Extension]:
    if sys.platform == "win32":
        sys.exit("smalti: Windows is not supported, because the kernels need GCC or Clang; use it in WSL")
    paths = sorted(Path("src").glob("smalti/**/*.pyx"))
    if not paths:
        # A package without kernels would install and fail at its first use.
        sys.exit("smalti: no kernels (*.pyx) below src/smalti: this source tree is incomplete, nothing was built")
    paths.append(Path("src", *SHARED.split(".")).with_suffix(".c"))  # written by Cython
    names = [".".join(path.relative_to("src").with_suffix("").parts) for path in paths]
    macros: list[tuple[str, str | None]] = [*LIMITED_API] if ABI3 else []
    return [
        Extension(name, [str(path)], define_macros=macros, py_limited_api=ABI3)
        for name, path in zip(names, paths, strict=True)
    ]


class BuildKernels(build_ext):
    """Compiles without symbols, which were half of the package."""

    def build_extensions(self) -> None:
        for extension in self.extensions:
            compile_args, extension.extra_link_args = self._flags()
            unrolled = ["-funroll-loops"] * (extension.name in UNROLLED)
            extension.extra_compile_args = compile_args + unrolled
        super().build_extensions()

    def _flags(self) -> tuple[list[str], list[str]]:
        quiet = ["-Wno-unused-function", "-Wno-unreachable-code"]
        if MORE_FLAGS:  # with symbols, for whoever looks at what such a build finds
            return ["-O3", *quiet, *MORE_FLAGS], []
        strip = ["-Wl,-x"] if sys.platform == "darwin" else ["-Wl,--strip-all"]
        return ["-O3", "-g0", *quiet], strip

    def build_extension(self, ext: Extension) -> None:
        """Compile one kernel, or take it from the cache if nothing it is made of has changed."""
        built = Path(self.get_ext_fullpath(ext.name))
        cached = self._cached(ext, built.name)
        if cached is not None and cached.exists():
            built.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(cached, built)
            return
        # setuptools compares only dates, and would keep a kernel that was compiled with other flags.
        self.force = self.force or cached is not None
        super().build_extension(ext)
        if cached is not None:
            cached.parent.mkdir(parents=True, exist_ok=True)
            whole = cached.with_suffix(f".{os.getpid()}")
            shutil.copy2(built, whole)
            whole.replace(cached)  # another build may be reading it

    def _cached(self, ext: Extension, name: str) -> Path | None:
        if not CACHE:
            return None
        digest = hashlib.sha256(
            repr(
                (
                    sys.version,
                    sysconfig.get_platform(),
                    os.environ.get("CC"),
                    ext.define_macros,
                    ext.extra_compile_args,
                    ext.extra_link_args,
                )
            ).encode()
        )
        for source in ext.sources:
            digest.update(Path(source).read_bytes())
        return Path(CACHE, f"{digest.hexdigest()[:32]}-{name}")


def to_c(found: list[Extension]) -> list[Extension]:
    return cythonize(
        found,
        compiler_directives=DIRECTIVES,
        include_path=["src"],
        nthreads=CORES,
        shared_utility_qualified_name=SHARED,
    )


def translated() -> list[Extension]:
    """The kernels in C. With a cache, translated there once for each state of all Cython files together."""
    found = kernels()
    if {"sdist", "egg_info", "dist_info"} & set(sys.argv):
        return found  # Nothing is compiled, and a sdist is to have the kernels as they were written.
    if not CACHE:
        return to_c(found)
    digest = hashlib.sha256(repr((cython_version, sorted(DIRECTIVES.items()), ABI3, SHARED)).encode())
    for path in sorted([*Path("src").glob("smalti/**/*.pyx"), *Path("src").glob("smalti/**/*.pxd")]):
        digest.update(str(path).encode() + path.read_bytes())
    kept = Path(CACHE, f"c-{digest.hexdigest()[:32]}")
    files = {extension.name: kept / f"{extension.name}.c" for extension in found}
    if not all(path.exists() for path in files.values()):
        made = to_c(found)
        kept.mkdir(parents=True, exist_ok=True)
        for extension in made:
            shutil.copy2(extension.sources[0], files[extension.name])
    here = Path.cwd()
    for extension in found:
        source = files[extension.name]
        # setuptools writes the names of sources down, and refuses absolute ones in what it has written.
        extension.sources = [str(source.relative_to(here) if source.is_relative_to(here) else source)]
    return found


if __name__ == "__main__":
    setup(
        ext_modules=translated(),
        cmdclass={"build_ext": BuildKernels},
        options={
            "build_ext": {"parallel": CORES},
            **({"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {}),
        },
    )
