"""What the coverage-guided fuzzer has found worth keeping, replayed: an error of ours, or values that hold together."""

from __future__ import annotations

import pytest

from tests.tools.fuzzing import corpus
from tests.tools.fuzzing.targets import TARGETS, run, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_does_no_harm(name: str) -> None:
    inputs = corpus.load(name)
    assert inputs, "run make fuzz-coverage"
    accepted = [run(name, data) for data in (*inputs.values(), *seeds(name))]
    assert any(accepted)
    assert not all(accepted)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus.HOME.iterdir()) < 300_000
