"""The loader in frameworks for training, where they are installed: ``make test-loaders``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import smalti

ROWS = 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for place in range(2):
        ids = range(place * 500, place * 500 + 500)
        table = pa.table({"id": ids, "x": [row / 2 for row in ids], "name": [f"row {row}" for row in ids]})
        smalti.write_table(table, tmp_path / f"{place}.mosaic", row_group_max_rows=64)
    return tmp_path


def test_nothing_is_imported() -> None:
    """The package itself imports none of them."""
    import subprocess

    code = "import sys, smalti; smalti.loader; print({'torch', 'datasets', 'ray', 'jax'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_torch_workers_share_a_shard_out(path: Path, workers: int) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    batches = iterable(smalti.loader(path, ["id"], 64, shuffle=True, shard=(0, 2)))
    others = iterable(smalti.loader(path, ["id"], 64, shuffle=True, shard=(1, 2)))
    found: list[int] = []
    for each in (batches, others):
        loaded = torch_data.DataLoader(each, batch_size=None, num_workers=workers)
        found += [int(row) for batch in loaded for row in batch["id"]]
    assert sorted(found) == list(range(ROWS))


def iterable(loader: smalti.Loader) -> Any:
    """As the documentation has it."""
    torch_data = pytest.importorskip("torch.utils.data")

    class Batches(torch_data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(loader)

    return Batches()


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_takes_single_rows(path: Path, workers: int) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    rows = smalti.loader(path, ["id", "x", "name"])
    loaded = list(torch_data.DataLoader(rows, batch_size=100, shuffle=True, num_workers=workers))
    ids = [int(row) for batch in loaded for row in batch["id"]]
    assert sorted(ids) == list(range(ROWS))
    assert [name for batch in loaded for name in batch["name"]] == [f"row {row}" for row in ids]
    sampler = torch_data.BatchSampler(torch_data.SequentialSampler(rows), 300, False)
    whole = list(torch_data.DataLoader(smalti.loader(path, ["id", "x"]), sampler=sampler, batch_size=None))
    assert [batch["x"].shape[0] for batch in whole] == [300, 300, 300, 100]


def test_torch_distributed_shards_are_equally_long(path: Path) -> None:
    """What a run needs that waits for all ranks after each batch."""
    pytest.importorskip("torch")
    counts = set()
    for rank in range(7):
        loader = smalti.loader(path, ["id"], 20, shuffle=True, drop_last=True, shard=(rank, 7))
        counts.add(tuple(len(batch["id"]) for batch in loader))
    assert counts == {(20,) * 7}


def test_torch_resumes(path: Path) -> None:
    torch = pytest.importorskip("torch")
    loader = smalti.loader(path, ["id", "x"], 64, shuffle=True, seed=3)
    loaded = iter(torch.utils.data.DataLoader(iterable(loader), batch_size=None))
    seen = [next(loaded)["id"] for _ in range(5)]
    torch.save(loader.state_dict(), path / "state.pt")
    other = smalti.loader(path, ["id", "x"], 64, shuffle=True, seed=3)
    other.load_state_dict(torch.load(path / "state.pt"))
    rest = [batch["id"] for batch in torch.utils.data.DataLoader(iterable(other), batch_size=None)]
    assert sorted(torch.cat(seen + rest).tolist()) == list(range(ROWS))


def examples(shards, path):  # type: ignore[no-untyped-def]  # datasets pickles the function with its annotations
    for shard in shards:
        for batch in smalti.loader(path, ["id", "name"], 64, shuffle=True, shard=(shard, 3)):
            for row in zip(*batch.values(), strict=True):
                yield dict(zip(batch, row, strict=True))


def test_datasets(path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    given = {"shards": [0, 1, 2], "path": str(path)}
    stream = datasets.IterableDataset.from_generator(examples, gen_kwargs=given)
    found = list(stream)
    assert sorted(row["id"] for row in found) == list(range(ROWS))
    assert all(row["name"] == f"row {row['id']}" for row in found)
    assert stream.n_shards == 3 if hasattr(stream, "n_shards") else stream.num_shards == 3


def test_ray(path: Path) -> None:
    ray = pytest.importorskip("ray")
    data = pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:

        def read(shards: dict[str, Any]) -> Any:
            for shard in shards["item"]:
                yield from smalti.loader(path, ["id", "x"], 64, shuffle=True, shard=(int(shard), 4), output="arrow")

        found = data.from_items(range(4)).map_batches(read, batch_size=1)
        assert sorted(row["id"] for row in found.take_all()) == list(range(ROWS))
    finally:
        ray.shutdown()


def test_jax(path: Path) -> None:
    jax = pytest.importorskip("jax")
    step, total = jax.jit(lambda x: x.sum()), 0.0
    for batch in smalti.loader(path, ["id", "x"], 50, shuffle=True, drop_last=True):
        total += float(step(batch["x"]))
    assert total == sum(row / 2 for row in range(ROWS))
    assert step._cache_size() == 1  # all batches have the same shape
    np.testing.assert_array_equal(jax.device_put(batch["x"]), batch["x"].astype(np.float32))
