"""What a file keeps when another takes its name: links are followed as `open` does, mode and owner stay."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.io.sinks import open_sink
from smalti.kudu import CFileWriter
from tests.support.children import ROOT

NEW = pa.table({"a": [4, 5]})


def write_table(path: Path) -> None:
    smalti.write_table(NEW, path)


def write_cfile(path: Path) -> None:
    with CFileWriter(path, pa.int64()) as writer:
        writer.write(pa.array([[1]]))


def convert(path: Path) -> None:
    source = path.parent / "source.csv"
    source.write_text("a\n4\n5\n")
    jobs.convert(source, path, overwrite=True)


WRITERS = [write_table, write_cfile, convert]


@pytest.fixture(params=WRITERS, ids=lambda writer: writer.__name__)
def write(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    writer: Callable[[Path], None] = request.param
    return writer


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A directory on another file system than pytest's."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no second file system here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_the_mode_is_kept(write: Callable[[Path], None], mode: int, tmp_path: Path) -> None:
    target = tmp_path / "t.mosaic"
    target.write_bytes(b"old")
    target.chmod(mode)
    write(target)
    assert target.stat().st_mode & 0o7777 == mode
    assert target.read_bytes() != b"old"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(write: Callable[[Path], None], tmp_path: Path) -> None:
    target = tmp_path / "t.mosaic"
    target.write_bytes(b"old")
    os.chown(target, 1234, 4321)
    target.chmod(0o640)
    write(target)
    status = target.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 4321, 0o640)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_where_the_owner_cannot_be_kept_nobody_gains_rights() -> None:
    """A user may replace a file of another in a shared directory. The group's rights then must not go to his group."""
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    shared.chmod(0o777)
    target = shared / "t"
    target.write_bytes(b"old")
    target.chmod(0o662)
    script = "import os, sys\nfrom smalti.io.sinks import finish_with, open_sink\n"
    script += "os.setgroups([]); os.setgid(9999); os.setuid(9999); finish_with(open_sink(sys.argv[1]), b'new')"
    try:
        subprocess.run([sys.executable, "-c", script, str(target)], cwd=ROOT, check=True)
        status = target.stat()
        assert (target.read_bytes(), status.st_uid, status.st_mode & 0o777) == (b"new", 9999, 0o622)
        target.chmod(0o444)
        os.chown(target, 0, 0)
        done = subprocess.run([sys.executable, "-c", script, str(target)], cwd=ROOT, capture_output=True, check=False)
        assert b"PermissionError" in done.stderr
        assert target.read_bytes() == b"new"
    finally:
        for path in shared.iterdir():
            path.unlink()
        shared.rmdir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_read_only_file_is_locked_while_it_is_replaced() -> None:
    """Jobs replace it by renaming, for which its directory has to be writable, and not the file."""
    with tempfile.NamedTemporaryFile(dir="/tmp") as target:
        os.fchmod(target.fileno(), 0o444)
        script = "import os, sys\nfrom pathlib import Path\nfrom smalti.io import sinks\n"
        script += "os.setgroups([]); os.setgid(9999); os.setuid(9999); sinks.LOCK_PATIENCE = 0.01\n"
        script += "with sinks.replacing(Path(sys.argv[1])) as one, sinks.replacing(Path(sys.argv[1])) as other:\n"
        script += "    print(one, other)\n"
        command = [sys.executable, "-c", script, target.name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


def test_a_private_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "t.mosaic"
    target.write_bytes(b"old")
    target.chmod(0o600)
    sink = open_sink(target)
    sink.write(b"secret")
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600, 0o600]
    sink.abort()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(("mode", "hidden"), [(0o600, True), (0o644, False)])
def test_a_job_stages_it_in_private(mode: int, hidden: bool, tmp_path: Path) -> None:
    target, source = tmp_path / "t.mosaic", tmp_path / "s.csv"
    target.write_bytes(b"old")
    target.chmod(mode)
    source.write_text("a\n1\n")
    seen: list[bool] = []

    def look(_: object) -> None:
        staged = (path for path in (tmp_path / "_mosaic_jobs").iterdir() if path.is_dir())
        seen.extend(not path.stat().st_mode & 0o077 for path in staged)

    jobs.convert(source, target, overwrite=True, progress=look)
    assert set(seen) == {hidden}


def test_links_are_followed(write: Callable[[Path], None], tmp_path: Path, other_disk: Path) -> None:
    """Also a chain of them, over several file systems, to a file of another ending, or to nothing yet."""
    real = other_disk / "real.bin"
    (tmp_path / "middle").symlink_to(real)
    link = tmp_path / "t.mosaic"
    link.symlink_to("middle")
    for _ in range(2):
        write(link)  # first there is nothing at the end
        assert link.is_symlink()
        assert (tmp_path / "middle").is_symlink()
        assert real.is_file()
        assert [path.name for path in other_disk.iterdir()] == ["real.bin"]
        assert {path.name for path in tmp_path.iterdir()} <= {"t.mosaic", "middle", "source.csv"}
        real.chmod(0o600)
    assert real.stat().st_mode & 0o777 == 0o600


def test_links_that_open_refuses(write: Callable[[Path], None], tmp_path: Path) -> None:
    link = tmp_path / "t.mosaic"
    link.symlink_to("t.mosaic")
    with pytest.raises(OSError, match="symbolic links"):
        write(link)
    link.unlink()
    link.symlink_to(tmp_path / "none" / "t.mosaic")
    if write is not convert:  # which makes the directories of its target
        with pytest.raises(FileNotFoundError) as raised:
            write(link)
        assert raised.value.filename == str(link)
        assert list(tmp_path.iterdir()) == [link]


def test_a_link_to_a_directory(tmp_path: Path, other_disk: Path) -> None:
    link = tmp_path / "t.mosaic"
    link.symlink_to(other_disk)
    with pytest.raises(IsADirectoryError):
        smalti.write_table(NEW, link)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("a\n4\n5\n")
    sources = [tmp_path / "one.csv", tmp_path / "two.csv"]
    jobs.convert(sources, link)
    jobs.convert(sources, link, overwrite=True)
    jobs.compact(link)
    assert smalti.dataset(link).to_table().num_rows == 4
    assert link.is_symlink()
    assert len(list(other_disk.glob("*.mosaic"))) == 1


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    smalti.write_table(NEW, pipe)
    data, _ = reader.communicate(timeout=120)
    assert pipe.is_fifo()
    assert smalti.read_table(io.BytesIO(data)).equals(NEW)
    smalti.write_table(NEW, "/dev/null")
    assert Path("/dev/null").is_char_device()
