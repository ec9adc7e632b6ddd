"""With which definition a process goes on after a change of the layout, and what it makes of old answers meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.state.ahead import ahead_home
from kcontrol.apps import leftovers
from kcontrol.apps.passing_on import PassedOn
from kcontrol.apps.placing import first_seat, submit_prepared
from kcontrol.apps.relaying import Preparation, Prepared, WouldBe
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import ControlRecord, LayoutRequest, Logged, PipelineSpec
from kcontrol.core.step.layout_change import assigned
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import SAVED, folded, given

OVER, MINE = SAVED, assigned(SAVED, given())
OTHER = replace(SAVED, fingerprint="f2", compatible_with=("f1",))


@dataclass
class Named:
    """What is asked of a definition here."""

    name: str = "p"


@dataclass
class Sized(Named):
    """With a number of nodes, too."""

    nodes: int = 3


class _Lagging(MemoryControlLog):
    """Shows what is there through a barrier only."""

    lags = False

    async def read_to_end(self) -> list[Logged]:
        return [] if self.lags else await super().read_to_end()

    async def read_to_barrier(self, _pipeline: str) -> list[Logged]:
        return await super().read_to_end()


def _goes_on(*records: ControlRecord, lags: bool = False) -> tuple[PipelineSpec | None, list[ControlRecord]]:
    """By which definition, and what was submitted. records: what has come since this process made ready."""

    async def go_on() -> tuple[PipelineSpec | None, list[ControlRecord]]:
        kafka = MemoryKafka()
        log, other = _Lagging(kafka, "p"), MemoryControlLog(kafka, "p")
        await log.append([OVER])
        view = evolve(PipelineView.empty("p"), (await log.read_to_end())[0])
        await log.append(records)
        log.lags = lags
        pipeline, bound = cast(Pipeline, Named()), cast(BoundQueries, None)
        passed = PassedOn(cast(KafkaControlLog, log), view, "")
        spec = await submit_prepared(passed, Prepared("r", pipeline, OVER, MINE, bound))
        logged = [one.record for one in await other.read_to_end()]
        return spec, cast(list[ControlRecord], logged[1 + len(records) :])

    return asyncio.run(go_on())


def test_the_first_process_submits_the_definition_and_the_others_take_it() -> None:
    assert _goes_on() == (MINE, [MINE])
    longer = replace(MINE, limits=replace(MINE.limits, step_timeout_ms=1))
    assert _goes_on(MINE) == (MINE, [])
    assert _goes_on(MINE, longer) == (longer, [])


@pytest.mark.parametrize("lags", [False, True])
@pytest.mark.parametrize(
    "submitted",
    [
        OTHER,
        assigned(OTHER, given()),
        assigned(OVER, given(number=2)),
        replace(OVER, compatible_with=("f0",)),
    ],
    ids=["another", "another by the change", "by the next change", "other settings"],
)
def test_what_somebody_else_has_submitted_since_is_neither_replaced_nor_taken_for_the_same(
    submitted: PipelineSpec, lags: bool
) -> None:
    assert _goes_on(submitted, lags=lags) == (None, [])


def test_a_node_makes_ready_for_a_change_behind_one_that_it_has_yet_to_read(tmp_path: Path) -> None:
    copied = ahead_home(tmp_path, "p", 0)
    copied.mkdir(parents=True)
    view = evolve(PipelineView.empty("p"), Logged(0, 0, SAVED))
    view = evolve(view, Logged(1, 0, LayoutRequest("p", "l2", 2, 3, 60_000)))

    async def look() -> bool:
        who = WouldBe(cast(Any, None), cast(Pipeline, Named()), 0, tmp_path, tmp_path, cast(Any, None))
        return await Preparation(who).look(view, StepsView("p"))

    assert asyncio.run(look()), "it looks again"
    assert copied.exists()


def test_who_submits_reads_on_until_the_log_of_steps_shows_the_change_that_the_definition_is_by() -> None:
    old, new = folded(boundary(1, nodes=2)), folded(boundary(1, nodes=2), given())
    cluster = ClusterSettings(bootstrap_servers="nowhere:1")
    with patch.object(leftovers, "_committed", AsyncMock(side_effect=[old, new, new, old])) as read:
        assert asyncio.run(leftovers.committed(cluster, "p", 1)) == new
        assert asyncio.run(leftovers.committed(cluster, "p")) == new
        assert read.await_count == 3
        with (
            patch.object(leftovers, "_OLD_MS", 0),
            pytest.raises(RetriableError, match="read up to change 0 only"),
        ):
            asyncio.run(leftovers.committed(cluster, "p", 1))


def test_who_was_placed_begins_where_there_is_no_pipeline_any_more(tmp_path: Path) -> None:
    """Its job was submitted again, and told to go on with a layout that was deleted with the pipeline meanwhile."""
    two = cast(Pipeline, Sized())
    who = WouldBe(cast(Any, None), two, 0, tmp_path, tmp_path, cast(Any, None), placed=True)
    preparation, steps = Preparation(who), StepsView("p")
    gone, there = PipelineView.empty("p"), evolve(PipelineView.empty("p"), Logged(0, 0, SAVED))
    assert first_seat(gone, steps, preparation, who).nodes == 3
    assert first_seat(there, steps, preparation, who).nodes == SAVED.nodes == 2
    by_a_person = replace(who, placed=False)
    assert first_seat(gone, steps, preparation, by_a_person).nodes == 0, "it waits"
