"""What an installed package must be able to do, run by itself in an environment without the checkout.

`python -I smoke.py`: it needs nothing but smalti and what smalti depends on. Where pyspark is installed, the jar for
Spark is built too.
"""

import importlib
import pkgutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

#: What smalti can do without; modules that need one of them need not import here.
OPTIONAL = {"duckdb", "obstore", "pandas", "polars", "pypaimon", "pyspark"}


def import_everything() -> None:
    """Import every module of the package: one that was forgotten in the build is missed by those that import it."""
    import smalti

    for found in pkgutil.walk_packages(smalti.__path__, "smalti."):
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise


def command_line(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("smalti")
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, encoding="utf-8", check=False)


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
        assert command_line("--version").stdout.strip() == f"smalti {smalti.__version__}"
        shown = command_line("head", str(path), "-c", "id,c7", "--where", "id between 7 and 8", "--csv")
        assert shown.stdout.splitlines() == ["id,c7", "7,", "8,3.5"], shown
        page = Path(directory, "page.html")
        shown = command_line("report", str(path), "-o", str(page))
        assert shown.returncode == 0, shown
        assert "c299" in page.read_text(encoding="utf-8")
        jar = Path(directory, "x.jar")
        shown = command_line("spark-jar", "-o", str(jar))
        if find_spec("pyspark"):
            assert shown.returncode == 0, shown
            names = zipfile.ZipFile(jar).namelist()
            assert any(name.endswith("MosaicSource.class") for name in names), names
        else:
            assert "pip install 'smalti[spark]'" in shown.stderr, shown
    import_everything()
    print(f"smalti {smalti.__version__} works")


if __name__ == "__main__":
    main()
