"""A cluster's log that was written once makes the same values for ever, bytes by bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import EMPTY, FIRST_LEVEL, LATEST_LEVEL
from kcontrol.wire.cluster import KINDS
from tests.golden.cluster import FOLDER, NAMES, PLAYED, fold, read, what_is_in

PATHS = sorted(FOLDER.glob("*.json"))
PARTS = {"unable", "bad", "bounds", "kept", "stood by"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
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
    assert {path.stem for path in PATHS} >= set(NAMES), "run python -m tests.golden.make"


def test_each_has_what_it_is_there_for() -> None:
    for name, played in PLAYED.items():
        assert played.has <= what_is_in(read(FOLDER / f"{name}.json")[0]), name


def test_every_kind_of_entry_and_every_level_is_in_one() -> None:
    """A new kind, a new level or a new part of the value comes with a log that has it (tests/golden/cluster.py)."""
    found = set[str]().union(*(what_is_in(read(path)[0]) for path in PATHS))
    levels = {f"level {level}" for level in range(FIRST_LEVEL, LATEST_LEVEL + 1)}
    assert {*KINDS, *levels, *PARTS} - found == set()
