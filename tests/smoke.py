"""What an installed package must be able to do, run by itself in an environment without the checkout.

`python -I smoke.py`: it needs nothing but smalti and what smalti depends on.
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    import pyarrow as pa

    import smalti
    from smalti import jobs, kudu
    from smalti.report import render_report

    where = Path(smalti.__file__).resolve()
    assert where.is_relative_to(Path(sys.prefix).resolve()), f"{where} is not of this environment"
    table = pa.table({"id": range(1000), **{f"c{i}": [i * 0.5, None] * 500 for i in range(300)}})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t.mosaic")
        smalti.write_table(table, path, stats_columns=["id"])
        read = smalti.read_table(path, ["c7"], filters=[("id", ">=", 990)])
        assert read.to_pydict() == {"c7": [3.5, None] * 5}, read
        assert smalti.read_table(path).equals(table)
        assert jobs.convert(path, Path(directory, "t.parquet")).num_rows == 1000
        block = kudu.encode_array_block(pa.array([[1, 2], None, [3]]))
        assert block is not None
        with smalti.open(path) as file:
            assert render_report(file).startswith("<!doctype html>")
        command = [sys.executable, "-I", "-m", "smalti", "count", str(path)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1000\n"
        program = Path(sys.executable).with_name("smalti.exe" if sys.platform == "win32" else "smalti")
        shown = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
        assert shown.strip() == f"smalti {smalti.__version__}", shown
    print(f"smalti {smalti.__version__} works")


if __name__ == "__main__":
    main()
