"""Packages that smalti can do without: imported when they are needed, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional_module(name: str, extra: str | None = None) -> Any:
    """Import a package that an extra brings, by default the one of the same name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"{name} is not installed: pip install 'smalti[{extra or name}]'", name=name
        ) from None
