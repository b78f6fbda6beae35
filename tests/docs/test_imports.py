"""Imports go one way: the layers of docs/architecture.md, checked against every import of the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks_of

SOURCE = ROOT / "src"
#: Engines are chosen by name at run time: the one place where a lower layer calls a higher one.
EXCEPTIONS = {("smalti.jobs.engine", "smalti.spark.executor")}


def layers() -> list[list[str]]:
    page = ROOT / "docs" / "architecture.md"
    (found,) = [block.code for block in blocks_of(page) if block.language == "layers"]
    return [line.split() for line in found.splitlines()]


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    return sorted(path for suffix in ("py", "pyx", "pxd") for path in (SOURCE / "smalti").rglob(f"*.{suffix}"))


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module imported, and whether as the module itself is loaded (not in a function, not for types only)."""
    if path.suffix != ".py":
        for found in re.finditer(r"^\s*from (smalti[\w.]*) c?import (\w+)", path.read_text(), re.M):
            yield (found[1] if found[1] != "smalti" else f"smalti.{found[2]}"), True
        return
    tree = ast.parse(path.read_text())
    later = {id(node) for part in ast.walk(tree) if _is_later(part) for node in ast.walk(part)}
    ignored = {id(n) for part in ast.walk(tree) if _is_ignored(part) for body in part.body for n in ast.walk(body)}
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, id(node) not in later
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield (whole if node.module == "smalti" else node.module), id(node) not in later


def _is_later(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _is_ignored(node: ast.AST) -> bool:
    """Whether the imports in a node do not count: for types only, or of views that notebooks ask for."""
    if isinstance(node, ast.FunctionDef) and node.name == "_repr_html_":
        return True
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_module_has_a_layer() -> None:
    named = {name for line in layers() for name in line}
    modules = {module_of(path).removeprefix("smalti.") for path in sources()} - {"smalti", "__main__"}
    assert {name.split(".")[0] for name in modules} <= named
    assert named <= modules


def drawn_tree() -> tuple[set[str], dict[str, list[str]]]:
    """What the block `tree` of docs/architecture.md draws: all files and packages, and the modules that packages name.

    A line is a file (``spec.py``) or a package (``table/``) with a few words about it. Lines below a package that are
    indented further belong to it: packages of its own, and lines that start with a colon, which name its modules
    without their suffix::

        cli/         arguments and commands
          : arguments commands main
          render/    what they print
            : rows table text
    """
    page = ROOT / "docs" / "architecture.md"
    (drawn,) = [block.code for block in blocks_of(page) if block.language == "tree"]
    entries: set[str] = set()
    modules: dict[str, list[str]] = {}
    above: list[tuple[int, str]] = []
    for line in drawn.splitlines()[1:]:
        indent, (first, *more) = len(line) - len(line.lstrip()), line.split()
        above = [(depth, package) for depth, package in above if depth < indent]
        inside = above[-1][1] if above else ""
        if first == ":":
            modules.setdefault(inside, []).extend(more)
            continue
        entries.add(f"{inside}{first}")
        if first.endswith("/"):
            above.append((indent, f"{inside}{first}"))
    return entries, modules


def test_the_tree_is_as_it_is_drawn() -> None:
    entries, _ = drawn_tree()
    at_top = {name for name in entries if name.count("/") == name.endswith("/")}
    there = {f"{path.name}/" if path.is_dir() else path.name for path in (SOURCE / "smalti").iterdir()}
    assert at_top == there - {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}


def test_packages_name_all_their_modules() -> None:
    """`drawn_tree` says how they are written down."""
    there: dict[str, set[str]] = {}
    for path in sources():
        package = path.parent.relative_to(SOURCE / "smalti").as_posix()
        if package != "." and path.stem != "__init__":
            there.setdefault(f"{package}/", set()).add(path.stem)
    entries, modules = drawn_tree()
    assert [package for package in there if package not in entries] == [], "a package has a line of its own"
    wanted = {package: " ".join([":", *sorted(names)]) for package, names in sorted(there.items())}
    assert {package: " ".join([":", *sorted(modules.get(package, []))]) for package in wanted} == wanted
    assert all(len(names) == len(set(names)) for names in modules.values())


def test_modules_stay_small() -> None:
    """What CONTRIBUTING.md says of their lines."""
    lines = sorted(len(path.read_text().splitlines()) for path in sources())
    assert lines[len(lines) * 9 // 10] < 350
    assert lines[-1] < 600


def test_imports_go_one_way() -> None:
    rank = {name: i for i, line in enumerate(layers()) for name in line}

    def rank_of(module: str) -> int:
        """A module of a package may have a layer of its own, below the package: `logical.types` does."""
        parts = module.split(".")
        # `import smalti` gives what the package exports: readers, writers, datasets.
        return rank.get(".".join(parts[1:3]), rank["table" if module == "smalti" else parts[1]])

    wrong = []
    for path in sources():
        module = module_of(path)
        if module in ("smalti", "smalti.__main__"):
            continue
        for name, _ in imports(path):
            if not re.match(r"smalti(\.|$)", name) or (module, name) in EXCEPTIONS:
                continue
            if rank_of(name) > rank_of(module):
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_no_module_needs_itself_to_load() -> None:
    graph = {
        module_of(path): {name for name, at_load in imports(path) if at_load and name.startswith("smalti.")}
        for path in sources()
        if path.suffix == ".py" and module_of(path) != "smalti"
    }
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join([*above, module])
        if module in done or module not in graph:
            return
        for name in graph[module]:
            if name != module and not module.startswith(f"{name}."):
                visit(name, (*above, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize(
    ("below", "forbidden"),
    [
        ("smalti.io", r"smalti\.(?!io|errors|threads)"),
        ("smalti.format", r"smalti\.(io|file|table)"),
        ("smalti.mosaic", r"smalti\.(logical|file|table)"),
        ("smalti.cli", r"pyspark"),
        ("smalti.report", r"pyspark|pandas"),
        ("smalti.file", r"pyspark|pandas|polars|duckdb"),
    ],
)
def test_rooms_stay_apart(below: str, forbidden: str) -> None:
    for path in sources():
        if module_of(path).startswith(below):
            assert [name for name, _ in imports(path) if re.match(forbidden, name)] == [], path


def test_pyspark_is_imported_below_spark_only() -> None:
    for path in sources():
        if not module_of(path).startswith("smalti.spark"):
            assert [name for name, _ in imports(path) if name.split(".")[0] == "pyspark"] == [], path


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_an_engine_is_imported_by_its_own_modules_only(engine: str) -> None:
    for path in sources():
        if module_of(path) not in (f"smalti.{engine}", f"smalti._compat.{engine}"):
            assert [name for name, _ in imports(path) if name.split(".")[0] == engine] == [], path
