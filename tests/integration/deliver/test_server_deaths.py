"""The server that steps are delivered to, or the one of a table's catalog, is killed with SIGKILL at each arrow of a step's
way, and started anew: each step is there once, in order, without a gap."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import LakeLife, catalog_in, rows_of, steps_of
from tests.integration.deliver.lives import POINTS, TABLE, Life, expected_newest, expected_rows, log_of
from tests.integration.deliver.server_deaths import ServerDeaths
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.dice import seeded
from tests.support.postgres import Database

STEPS, KILLS = 40, 100
CATALOG_POINTS = ("opened", "taken", "made", "staged", "compared", "committed")


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of(range(1, STEPS + 1), settings, topic_factory)


def _make(database: Database, keys: tuple[str, ...] = ()) -> None:
    primary = " PRIMARY KEY" if keys else ""
    database.run(f"CREATE TABLE {TABLE} (step bigint, key int{primary}, value bigint)")


def _check(database: Database, keys: tuple[str, ...], step: int) -> None:
    rows = database.run(f"SELECT step, key, value FROM {TABLE} ORDER BY 1, 2, 3")
    assert rows == (expected_newest(step) if keys else expected_rows(range(1, step + 1)))
    assert database.run("SELECT step FROM kcontrol_steps") == [(step,)]


def test_a_database_may_die_at_each_arrow(log: StepsMaker, database: Database) -> None:
    _make(database)
    deaths = ServerDeaths(database.server, random.Random(1))
    for number, point in enumerate(POINTS, 1):
        life = Life(log.settings, database.url, until=3 * number, at=point)
        deaths.deliver(life, soon=False)
        assert deaths.count == number, f"it did not come to {point}"
        _check(database, (), 3 * number)


def test_a_catalog_may_die_at_each_arrow(log: StepsMaker, database: Database, tmp_path: Path) -> None:
    life = LakeLife(log.settings, "iceberg", tmp_path / "rows", until=0, uri=catalog_in(database)).fresh()
    deaths = ServerDeaths(database.server, random.Random(1))
    for number, point in enumerate(CATALOG_POINTS, 1):
        deaths.deliver(dataclasses.replace(life, until=2 * number, at=point), soon=False)
        assert deaths.count == number, f"it did not come to {point}"
        _check_catalog(life, 2 * number)


def _check_catalog(life: LakeLife, step: int) -> None:
    every = range(1, step + 1)
    assert rows_of(life.kind, life.path, life.uri) == expected_rows(every)
    assert steps_of(life.kind, life.path, life.uri) == list(every)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "upsert"])
def test_a_hundred_deaths_of_a_database(log: StepsMaker, database: Database, keys: tuple[str, ...]) -> None:
    dice = seeded()
    _make(database, keys)
    deaths, step = ServerDeaths(database.server, dice), 0
    while deaths.count < KILLS:
        if step == STEPS:
            database.run(f"TRUNCATE {TABLE}")
            database.run("DELETE FROM kcontrol_steps")
            step = 0
        step += 1
        life = Life(log.settings, database.url, until=step, keys=keys, at=dice.choice(POINTS))
        deaths.deliver(life, soon=dice.random() < 0.7)
        _check(database, keys, step)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_a_hundred_deaths_of_a_catalog(log: StepsMaker, database: Database, tmp_path: Path) -> None:
    dice = seeded()
    life = LakeLife(log.settings, "iceberg", tmp_path / "rows", until=0, uri=catalog_in(database))
    deaths, step = ServerDeaths(database.server, dice), STEPS
    while deaths.count < KILLS:
        if step == STEPS:
            database.run("DROP SCHEMA public CASCADE")
            database.run("CREATE SCHEMA public")
            life, step = life.fresh(), 0
        step += 1
        at = dice.choice(CATALOG_POINTS)
        deaths.deliver(dataclasses.replace(life, until=step, at=at), soon=dice.random() < 0.7)
        _check_catalog(life, step)
