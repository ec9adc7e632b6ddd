"""Many deaths and many races, at random places: each step is in the table once, in order, without a gap."""

from __future__ import annotations

import dataclasses
import random
import secrets
import signal
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import POINTS, LakeLife, catalog_in, rows_of, steps_of
from tests.integration.deliver.lives import ended, expected_rows, live, log_of, start
from tests.integration.kafka.steps_maker import StepsMaker

KILLS, RACES = 100, 40
STEPS = 40
_SEED = secrets.randbits(32)


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of(range(1, STEPS + 1), settings, topic_factory)


def _check(life: LakeLife) -> int:
    """What is there is whole; the last step."""
    rows = rows_of(life.kind, life.path, life.uri)
    steps = steps_of(life.kind, life.path, life.uri) if rows else []
    assert steps == list(range(1, len(steps) + 1))
    assert rows == expected_rows(steps)
    return len(steps)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
def test_a_hundred_deaths(log: StepsMaker, tmp_path: Path, kind: str) -> None:
    dice = random.Random(_SEED)
    print(f"seed {_SEED}")  # noqa: T201 - shown by pytest when a test fails
    life, killed = LakeLife(log.settings, kind, tmp_path / "rows", until=STEPS).fresh(), 0
    places = dict.fromkeys(POINTS[kind], 0)
    while killed < KILLS:
        point = dice.choice(POINTS[kind])
        # A delivery begins only once in a table; and the log must not be over soon.
        if point == "begun" or _check(life) >= STEPS - 2:
            life.fresh()
        nth = dice.randint(1, 6) if point in ("made", "soon", "staged", "compared", "committed") else 1
        code = ended(start(dataclasses.replace(life, at=point, nth=nth)))
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
        places[point] += code != 0
        _check(life)
    live(life)
    assert _check(life) == STEPS
    print(f"killed at {places}")  # noqa: T201
    assert all(places.values())


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg", "iceberg in PostgreSQL"])
def test_forty_races(log: StepsMaker, tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """Three at a time bring the same steps: nobody is waited for."""
    kind, _, is_in_postgres = kind.partition(" in ")
    uri = catalog_in(request.getfixturevalue("database")) if is_in_postgres else ""
    life = LakeLife(log.settings, kind, tmp_path / "rows", until=0, uri=uri).fresh()
    for step in range(1, RACES + 1):
        racers = [start(dataclasses.replace(life, until=step)) for _ in range(3)]
        assert [ended(each) for each in racers] == [0, 0, 0]
        assert _check(life) == step
