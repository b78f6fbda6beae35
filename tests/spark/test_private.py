"""The cache directory, from which programs are run: used only if nobody but this user can change it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from smalti.spark.setup.private import private_directory


def _leave(_: Path) -> None:
    pass


def _ours(home: Path) -> None:
    (home / "smalti").mkdir(mode=0o700)


def _readable(home: Path) -> None:
    (home / "smalti").mkdir(mode=0o755)


def _group_writes(home: Path) -> None:
    (home / "smalti").mkdir()
    (home / "smalti").chmod(0o770)


def _all_write(home: Path) -> None:
    (home / "smalti").mkdir()
    (home / "smalti").chmod(0o777)


def _anothers(home: Path) -> None:
    (home / "smalti").mkdir(mode=0o755)
    os.chown(home / "smalti", 12345, 12345)


def _link(home: Path) -> None:
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "smalti").symlink_to("elsewhere")


def _file(home: Path) -> None:
    (home / "smalti").write_text("")


def _open_home(home: Path) -> None:
    home.chmod(0o777)


def _sticky_home(home: Path) -> None:
    home.chmod(0o1777)


def _anothers_home(home: Path) -> None:
    os.chown(home, 12345, 12345)


CASES = [
    (_leave, True),
    (_ours, True),
    (_readable, True),
    (_sticky_home, True),
    (_group_writes, False),
    (_all_write, False),
    (_anothers, False),
    (_link, False),
    (_file, False),
    (_open_home, False),
    (_anothers_home, False),
]


@pytest.mark.parametrize(("prepare", "used"), CASES, ids=[prepare.__name__ for prepare, _ in CASES])
def test_the_cache_directory_is_used_only_if_it_is_ours(
    prepare: Callable[[Path], None], used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "anothers" in prepare.__name__ and os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    home = tmp_path / "cache"
    home.mkdir(mode=0o700)
    prepare(home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    found = private_directory()
    assert (found == home / "smalti") is used
    assert found.is_dir()
    assert found.stat().st_uid == os.getuid()
    assert not found.stat().st_mode & 0o022


def test_it_is_below_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = private_directory()
    assert found == tmp_path / ".cache/smalti"
    assert not found.stat().st_mode & 0o077
