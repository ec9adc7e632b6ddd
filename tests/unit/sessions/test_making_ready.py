"""A process that makes ready to be a node of another layout: what it does, and what it says of itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest

from kcontrol.adapters.spark.state.ahead import ahead_home
from kcontrol.apps import relaying
from kcontrol.apps.relaying import COPY_TRIES, Preparation, Read, WouldBe, prepare_beside
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    LayoutStatus,
    Logged,
    NodeJoin,
    PipelinePhase,
    PipelineSpec,
    Status,
    UpgradeWay,
)
from kcontrol.core.step.assignment import owned_by, owners_of
from kcontrol.core.step.layout_change import assigned, changed
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka
from tests.support.dice import seeded
from tests.support.owned_state import STORES, History, SavedCheckpoint
from tests.support.patience import HANG_S
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import folded
from tests.unit.core.test_live_layout import WIDE
from tests.unit.spark.test_ahead import HeldUp, had, told

STEP = 2
MORE = LayoutRequest("p", "l1", 1, 3, 60_000)
BOTH = LayoutRequest("p", "l1", 1, 2, 60_000, (0, 1))
STEPS = (boundary(1, nodes=2), boundary(2, (6, 1), (7, 2), nodes=2))


@dataclass(frozen=True)
class _Named:
    """What is asked of a definition here."""

    name: str = "p"
    nodes: int = 2

    def with_nodes(self, nodes: int) -> _Named:
        return replace(self, nodes=nodes)


_QUERIES = tuple(
    SimpleNamespace(name=name, stateful=True, exchanges=("x",), sources=1, once=None, outputs=())
    for name in STORES
)


def _bound(_: Pipeline) -> Any:
    bound = SimpleNamespace(queries=_QUERIES, exchanges=(), facts=lambda: ())
    return SimpleNamespace(**vars(bound), on_node=lambda _spec, _node: bound)


async def _resolved(
    _settings: Any, _pipeline: Any, *_: Any, layout: Assignment, **_more: Any
) -> PipelineSpec:
    inputs = (replace(WIDE.inputs[0], node_of=tuple(p % layout.nodes for p in range(3))),)
    return assigned(replace(WIDE, nodes=layout.nodes, inputs=inputs), layout)


@dataclass
class _Logs:
    """As one process has read them."""

    view: PipelineView
    committed: StepsView
    end: int = 0

    @property
    def read(self) -> Read:
        return self.view, self.committed

    def see(self, *records: ControlRecord) -> None:
        for record in records:
            self.view = evolve(self.view, Logged(self.end, 0, record))
            self.end += 1


def _logs(*records: ControlRecord, saved: Checkpoint | None = None) -> _Logs:
    found = _Logs(PipelineView.empty("p"), folded(*STEPS, *([] if saved is None else [saved])))
    found.see(WIDE, *records)
    return found


@dataclass
class _World:
    """The processes that make ready, with a checkpoint of two nodes."""

    tmp_path: Path
    saved: SavedCheckpoint
    kafka: MemoryKafka = field(default_factory=MemoryKafka)

    def process(self, node: int, instead: bool = False, **more: Any) -> Preparation:
        settings = {"rebind": _bound, **more}
        root = settings.pop("root", self.tmp_path / f"of-{node}-{instead}")
        where = (cast(Any, None), cast(Pipeline, _Named()), node, root, root / "own")
        return Preparation(WouldBe(*where, instead=instead, **settings))

    def checkpoint(self) -> Checkpoint:
        return told(self.saved)

    async def said(self) -> list[LayoutReady]:
        read = await MemoryControlLog(self.kafka, "p").read_to_end()
        return [one.record for one in read if isinstance(one.record, LayoutReady)]

    async def until(self, done: Callable[[LayoutReady], bool], it: Preparation, logs: _Logs) -> LayoutReady:
        """What a process says once it is so far."""
        async with asyncio.timeout(HANG_S):
            while True:
                assert await it.look(*logs.read)
                if (said := await self.said()) and done(said[-1]):
                    await it.close()
                    return said[-1]
                await asyncio.sleep(0)

    def run(self, scenario: Any) -> None:
        with ExitStack() as stack:
            for name, fake in (("resolve", _resolved), ("BEAT_S", 0.0)):
                stack.enter_context(patch.object(relaying, name, fake))
            log = MemoryControlLog(self.kafka, "p")
            stack.enter_context(patch.object(relaying.KafkaControlLog, "open", AsyncMock(return_value=log)))
            asyncio.run(asyncio.wait_for(scenario(), HANG_S))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _World:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return _World(tmp_path, SavedCheckpoint(tmp_path / "of", History(seeded(), 4, STEP), owners_of(WIDE)))


async def _looking(it: Preparation, logs: _Logs, done: Callable[[], bool]) -> None:
    """Until that holds."""
    async with asyncio.timeout(HANG_S):
        while not done():
            assert await it.look(*logs.read)
            await asyncio.sleep(0)


def _is_ready(said: LayoutReady) -> bool:
    return said.copied_step == STEP


def test_a_request_is_not_hurt_by_what_is_still_copied_for_the_one_whose_place_it_takes(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldUp(monkeypatch, after=True)

    async def scenario() -> None:
        it, logs = world.process(2), _logs(MORE, saved=world.checkpoint())
        try:
            await _looking(it, logs, held.begun.is_set)
            logs.see(replace(MORE, request_id="l2"))
            last = await world.until(lambda said: said.request_id == "l2" and _is_ready(said), it, logs)
            assert last.error == ""
        finally:
            held.go_on.set()

    world.run(scenario)
    assert (ahead_home(world.tmp_path / "of-2-False", "p", 2) / f"step-{STEP}").exists()


def test_a_new_process_copies_what_it_will_own_and_says_how_far_it_is(world: _World) -> None:
    async def scenario() -> None:
        it, logs = world.process(2), _logs(MORE)
        first = await world.until(lambda said: said.request_id == "l1", it, logs)
        assert (first.node, first.copied_step, first.total_bytes, first.error) == (2, 0, -1, ""), (
            "nothing is saved"
        )
        logs = _logs(MORE, saved=world.checkpoint())
        last = await world.until(lambda said: _is_ready(said) and it.is_ready, it, logs)
        assert last.copied_bytes == last.total_bytes > 0
        assert it.prepared is not None
        assert it.prepared.spec.owners == changed(WIDE, 3).owners
        said = await world.said()
        assert {each.uuid for each in said} == {last.uuid}
        assert [each.beat for each in said] == list(range(1, len(said) + 1)), "no two are equal"
        assert (ahead_home(world.tmp_path / "of-2-False", "p", 2) / f"step-{STEP}").exists()

    world.run(scenario)


def test_of_two_processes_with_a_number_the_one_makes_ready_that_is_to_be_the_node(world: _World) -> None:
    """S001-128: of both nodes at once."""

    async def scenario() -> None:
        logs = _logs(BOTH, saved=world.checkpoint())
        for node in range(2):
            assert not await world.process(node).look(*logs.read), "it is to end"
            comes = world.process(node, instead=True)
            last = await world.until(lambda said: _is_ready(said) and said.node == node, comes, logs)  # noqa: B023
            state = had(world.saved, (node,), owned_by(owners_of(WIDE), node))
            assert (last.total_bytes, last.linked_bytes) == (sum(map(len, state.values())), 0), (
                "all of the node"
            )
        logs.see(replace(MORE, request_id="l2"))
        assert not await world.process(0, instead=True).look(*logs.read), "nobody is replaced"

    world.run(scenario)


def test_what_is_withdrawn_is_forgotten_with_what_was_copied(world: _World) -> None:
    async def scenario() -> None:
        it, logs = world.process(2), _logs(MORE, saved=world.checkpoint())
        await world.until(_is_ready, it, logs)
        logs.see(replace(MORE, request_id="l2", nodes=0))
        assert not await it.look(*logs.read)
        assert not it.is_ready
        assert not ahead_home(world.tmp_path / "of-2-False", "p", 2).exists()

    world.run(scenario)


def test_why_a_process_can_not_be_the_node_is_said(world: _World) -> None:
    def refuses(_: Pipeline) -> Any:
        raise ConfigurationError("this application has made its frames for 2 nodes")

    async def scenario() -> None:
        logs = _logs(MORE, saved=world.checkpoint())
        said = await world.until(lambda said: said.error != "", world.process(2, rebind=refuses), logs)
        assert (said.request_id, said.copied_step) == ("l1", 0)
        assert said.error == "this application has made its frames for 2 nodes"

    world.run(scenario)


def test_a_checkpoint_that_can_not_be_copied_is_tried_again_and_then_it_is_said(world: _World) -> None:
    tries = []

    class Counted(relaying.AheadCopy):
        def copy(self, checkpoint: Checkpoint) -> None:
            tries.append(checkpoint.step)
            super().copy(checkpoint)

    async def scenario() -> None:
        there = world.checkpoint()
        gone = replace(there, parts=tuple(replace(each, manifest="gone") for each in there.parts))
        with patch.object(relaying, "AheadCopy", Counted):
            said = await world.until(lambda said: said.error != "", world.process(2), _logs(MORE, saved=gone))
        assert said.copied_step == 0
        assert tries == [STEP] * COPY_TRIES

    world.run(scenario)


def test_in_place_is_where_the_node_works_and_nowhere_else(world: _World) -> None:
    """S001-129."""

    async def scenario() -> None:
        asked = replace(BOTH, replaced=(1,), way=UpgradeWay.IN_PLACE.value)
        join = NodeJoin("p", 1, "n", "host-b", 42)
        logs = _logs(join, asked, saved=world.checkpoint())
        elsewhere = await world.until(lambda said: said.error != "", world.process(1, instead=True), logs)
        assert "the upgrade is in place, and process 42 on host-b is node 1" in elsewhere.error
        here = world.process(
            1, instead=True, beside=lambda found: found == join, root=world.saved.root / "nodes"
        )
        last = await world.until(_is_ready, here, logs)
        assert last.linked_bytes == last.total_bytes > 0, "nothing is copied"

    world.run(scenario)


def test_a_checkpoint_of_before_the_request_is_copied_only_if_the_change_is_made_by_it(world: _World) -> None:
    """Otherwise most of it would be copied twice: once as it was then, once as it is in the one that is made."""

    async def scenario() -> None:
        it, logs = world.process(2), _logs(MORE, saved=world.checkpoint())
        logs.committed = folded(boundary(STEP + 1, (7, 2), (8, 3), nodes=2), view=logs.committed)
        await world.until(lambda said: said.request_id == "l1", it, logs)
        for _ in range(20):
            assert await it.look(*logs.read)
            await asyncio.sleep(0)
        assert {each.copied_step for each in await world.said()} == {0}
        told = LayoutStatus("l1", LayoutPhase.COPYING, 3, STEP, 1, 0, -1, 0, "")
        logs.see(Status(*("p", 9, PipelinePhase.RUNNING, 1, "", (), 0, "", ()), layout=told))
        await world.until(_is_ready, it, logs)

    world.run(scenario)


async def _until(holds: Callable[[], bool]) -> None:
    """Others go on meanwhile."""
    async with asyncio.timeout(HANG_S):
        while True:
            await asyncio.sleep(0)
            if holds():
                return


def test_a_node_makes_ready_by_what_it_has_read_itself(world: _World) -> None:
    """Its logs may be long, and are read by nobody for a second time: there is no Kafka here to read them from."""

    async def scenario() -> None:
        it, logs, asked = world.process(0), _logs(saved=world.checkpoint()), asyncio.Event()
        asked.set()
        beside = asyncio.create_task(prepare_beside(lambda: logs.read, asked, it))
        try:
            await _until(lambda: not asked.is_set())
            assert await world.said() == [], "nothing is asked for any more"
            logs.see(MORE)
            asked.set()
            while not any(map(_is_ready, await world.said())):
                await _until(lambda: True)
        finally:
            beside.cancel()
            await asyncio.gather(beside, it.close(), return_exceptions=True)

    world.run(scenario)
