"""One target under libFuzzer, which atheris brings: ``python -m tests.fuzzing.child TARGET [libFuzzer's arguments]``.

Needs kernels that were built with gcc's coverage (`tests.fuzzing.run` does it), the bridge, and atheris. Python's own
code is instrumented by atheris, the kernels count through the bridge: libFuzzer sees both.
"""

from __future__ import annotations

import ctypes
import os
import sys


def main() -> None:
    name, *arguments = sys.argv[1:]
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)  # The kernels find libFuzzer's functions and the bridge's.
    import atheris

    libfuzzer = ctypes.CDLL(sys.modules["atheris.core_with_libfuzzer"].__file__)
    bridge = ctypes.CDLL(os.environ["SMALTI_BRIDGE"], os.RTLD_GLOBAL)
    sys.setdlopenflags(flags)
    with atheris.instrument_imports(include=["smalti"]):
        from tests.fuzzing.targets import run
    bridge.bridge_connect(libfuzzer.__sanitizer_cov_8bit_counters_init, libfuzzer.__sanitizer_cov_pcs_init)

    def try_one(data: bytes) -> None:
        run(name, data)

    atheris.Setup([sys.argv[0], *arguments], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
