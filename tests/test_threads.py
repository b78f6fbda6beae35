"""The pools of threads."""

from __future__ import annotations

import subprocess
import sys


def test_threads_do_not_keep_a_process_from_ending() -> None:
    script = (
        "import io, pyarrow as pa, smalti; out = io.BytesIO();"
        "smalti.write_table(pa.table({f'c{i}': [i] for i in range(300)}), out, threads=4);"
        "print(smalti.read_table(out.getvalue()).num_columns)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "300"
