"""One target under libFuzzer, which atheris brings.

``python -m tests.tools.fuzzing.child TARGET [libFuzzer's arguments]``.

It needs kernels that were built with coverage, and the bridge and libFuzzer preloaded, as `tests.tools.fuzzing.run`
does. Python's own code is instrumented by atheris, the kernels count through the bridge: libFuzzer sees both.
"""

from __future__ import annotations

import ctypes
import sys


def main() -> None:
    name, *arguments = sys.argv[1:]
    import atheris

    with atheris.instrument_imports(include=["smalti"]):
        from tests.tools.fuzzing.targets import run
    loaded = ctypes.CDLL(None)  # The bridge comes first, then libFuzzer.
    loaded.bridge_connect(loaded.__sanitizer_cov_8bit_counters_init, loaded.__sanitizer_cov_pcs_init)
    atheris.Setup([sys.argv[0], *arguments], lambda data: run(name, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
