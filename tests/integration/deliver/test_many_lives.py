"""Many deaths and many races, at random places: each step is in the table once, in order, without a gap."""

from __future__ import annotations

import dataclasses
import itertools
import random
import secrets
import signal

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import (
    POINTS,
    TABLE,
    Life,
    ended,
    expected_newest,
    expected_rows,
    live,
    log_of,
    start,
)
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.postgres import Database

KILLS, RACES = 100, 40
STEPS = 40
_SEED = secrets.randbits(32)
KINDS = pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "upsert"])


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of(range(1, STEPS + 1), settings, topic_factory)


def _make(database: Database, keys: tuple[str, ...]) -> None:
    primary = " PRIMARY KEY" if keys else ""
    database.run(f"CREATE TABLE {TABLE} (step bigint, key int{primary}, value bigint)")


def _check(database: Database, keys: tuple[str, ...], step: int) -> None:
    rows = database.run(f"SELECT step, key, value FROM {TABLE} ORDER BY 1, 2, 3")
    assert rows == (expected_newest(step) if keys else expected_rows(range(1, step + 1)))


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@KINDS
def test_a_hundred_deaths(log: StepsMaker, database: Database, keys: tuple[str, ...]) -> None:
    dice = random.Random(_SEED)
    print(f"seed {_SEED}")  # noqa: T201 - shown by pytest when a test fails
    _make(database, keys)
    life, killed, step = Life(log.settings, database.url, until=0, keys=keys), 0, 0
    while killed < KILLS:
        point = dice.choice(POINTS)
        # Whoever dies at its commit has brought the table a step further: few do, so that the log is not over soon.
        if point == "committed" and step >= STEPS - 2:
            continue
        once = point in ("connected", "taken", "committed")
        died = start(dataclasses.replace(life, until=STEPS, at=point, nth=1 if once else dice.randint(1, 3)))
        code = ended(died)
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
        step = (database.run("SELECT step FROM kcontrol_steps") or [(0,)])[0][0] if _is_there(database) else 0
        _check(database, keys, step)
        if step >= STEPS - 2:
            database.run(f"TRUNCATE {TABLE}")
            database.run("DELETE FROM kcontrol_steps")
            step = 0
    live(dataclasses.replace(life, until=STEPS))
    _check(database, keys, STEPS)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@KINDS
def test_forty_races(log: StepsMaker, database: Database, keys: tuple[str, ...]) -> None:
    """Three at a time take the delivery from each other as fast as they can: nobody is waited for."""
    _make(database, keys)
    life = Life(log.settings, database.url, until=0, silence_s=0.0, keys=keys)
    for number in range(RACES):
        step = number % STEPS + 1
        racers = [start(dataclasses.replace(life, until=step, name=name)) for name in ("one", "two", "three")]
        assert [ended(each) for each in racers] == [0, 0, 0]
        _check(database, keys, step)
    (fence,) = itertools.chain(*database.run("SELECT fence FROM kcontrol_steps"))
    assert fence >= 3 * RACES


def _is_there(database: Database) -> bool:
    return database.run("SELECT to_regclass('kcontrol_steps') IS NOT NULL") == [(True,)]
