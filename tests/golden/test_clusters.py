"""A cluster's log that was written once makes the same values for ever, bytes by bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import EMPTY
from tests.golden.cluster import FOLDER, SEEDS, fold, read


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_an_old_log_makes_the_values_that_it_made(path: Path) -> None:
    log, digests = read(path)
    assert fold(log) == digests


def test_before_any_entry_the_value_is_what_it_was() -> None:
    """The policy that nobody has set is part of it: with another default two versions would make other values of one log."""
    assert digest(EMPTY) == "383f81701371f7f3200339d348cc0098"


def test_one_entry_less_makes_another_value() -> None:
    log, digests = read(FOLDER / "one-code.json")
    assert fold(log[1:]) != digests


def test_every_log_is_there() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} >= set(SEEDS), "run python -m tests.golden.make"
