"""The disk of a table of files goes away while steps are added to it, and comes back: nothing is made in its place, and each
step is there once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcontrol.apps.deliver.progress import DeliveryState
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import LakeLife, rows_of, steps_of
from tests.integration.deliver.lives import Until, expected_rows, live, log_of
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.lost_disk import LostDisk, lost_disk
from tests.support.patience import HANG_S
from tests.support.processes import until

STEPS = 6


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of(range(1, STEPS + 1), settings, topic_factory)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LostDisk]:
    with lost_disk(tmp_path / "disk") as there:
        yield there


@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
@pytest.mark.parametrize("at", ["taken", "made", "committed"])
def test_it_is_waited_for_and_nothing_is_made_in_its_place(
    log: StepsMaker, disk: LostDisk, kind: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--create was given: it makes a table where there is none, and none where there was one."""
    catalog = f"sqlite:///{disk.path.parent}/catalog.db"
    nth = 4 if at == "made" else 1
    life = LakeLife(log.settings, kind, disk.path / "rows", until=STEPS, at=at, nth=nth, uri=catalog).fresh()
    progress = Until(life.until)
    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as ambushed:
            life.ambush(disk.take_away, ambushed.setattr)
            running = pool.submit(live, life, progress)
            until(lambda: progress.facts.errors > 3 or running.done(), "it has tried four times", HANG_S)
        assert not running.done(), running.exception()
        assert progress.facts.state is DeliveryState.AWAY
        assert rows_of(kind, life.path, life.uri) == [] if kind != "iceberg" else True
        disk.bring_back()
        running.result(HANG_S)
    assert rows_of(kind, life.path, life.uri) == expected_rows(range(1, STEPS + 1))
    assert steps_of(kind, life.path, life.uri) == list(range(1, STEPS + 1))
