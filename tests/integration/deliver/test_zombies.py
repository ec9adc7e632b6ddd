"""Deliverers that stand still at a random place while another goes on, and wake up in the midst of that or after it: each step
is there once, in order, without a gap."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest

from kcontrol.adapters.postgres.session import SessionLimits
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import POINTS as LAKE_POINTS
from tests.integration.deliver.lake_lives import LakeLife, rows_of, steps_of
from tests.integration.deliver.lives import (
    POINTS,
    TABLE,
    Life,
    ended,
    expected_newest,
    expected_rows,
    log_of,
    start,
    until_stopped,
    wake,
)
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.dice import seeded
from tests.support.postgres import Database

ZOMBIES = 40
MORE = 2
"""Steps that each heir brings."""

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3_600)]


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of(range(1, MORE * ZOMBIES + 1), settings, topic_factory)


def _race(life: Life | LakeLife, at: str, *, wakes_early: bool, short_by: int = 0) -> None:
    """A zombie and its heir, until both are at the step. short_by: so many steps before that the zombie ends."""
    zombie = start(dataclasses.replace(life, until=life.until - short_by, at=at, signal=signal.SIGSTOP))
    until_stopped(zombie)
    heir = start(life)
    if not wakes_early:
        assert ended(heir) == 0
    wake(zombie)
    assert (ended(heir), ended(zombie)) == (0, 0), at


@pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "upsert"])
def test_forty_zombies_at_a_database(log: StepsMaker, database: Database, keys: tuple[str, ...]) -> None:
    dice = seeded()
    primary = " PRIMARY KEY" if keys else ""
    database.run(f"CREATE TABLE {TABLE} (step bigint, key int{primary}, value bigint)")
    short = SessionLimits(statement_s=1, lock_s=1)
    for number in range(1, ZOMBIES + 1):
        last = MORE * number
        life = Life(log.settings, database.url, until=last, keys=keys, silence_s=0.2, limits=short)
        # Upserts of all steps that the heir has brought would leave nothing to see.
        _race(life, dice.choice(POINTS), wakes_early=dice.random() < 0.5, short_by=1 if keys else 0)
        rows = database.run(f"SELECT step, key, value FROM {TABLE} ORDER BY 1, 2, 3")
        assert rows == (expected_newest(last) if keys else expected_rows(range(1, last + 1)))


@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
def test_forty_zombies_at_a_table_of_files(log: StepsMaker, tmp_path: Path, kind: str) -> None:
    dice = seeded()
    whole = LakeLife(log.settings, kind, tmp_path / "rows", until=0).fresh()
    # A delivery begins only once in a table; of an end at any moment nobody can tell whether it came.
    points = [each for each in LAKE_POINTS[kind] if each not in ("begun", "soon")]
    for number in range(1, ZOMBIES + 1):
        life = dataclasses.replace(whole, until=MORE * number)
        _race(life, dice.choice(points), wakes_early=dice.random() < 0.5)
        every = range(1, MORE * number + 1)
        assert rows_of(kind, life.path) == expected_rows(every)
        assert steps_of(kind, life.path) == list(every)
