"""The engine that stands in for Spark where regions are tried keeps state as a node does: what is lost, too old, or of steps
that are void would be seen in what it writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.write.writer import DigestWriter
from kcontrol.core.model import (
    Checkpoint,
    CheckpointSpec,
    FailureKind,
    InputRange,
    Layout,
    OutputLayout,
    Reason,
    SavedPart,
    StepBoundary,
    StepResult,
    StepWork,
    Token,
)
from kcontrol.core.node.replay import work_of
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.counting_engine import RETAINED, CountingEngine
from tests.support.tallies import NOTHING, counted
from tests.unit.core.made import SPEC, boundary

LOG_ID = "log"
_TOKEN = Token(1, 1, 7, 3, (2,))
_LAYOUT = Layout((), 2, (OutputLayout("out", 2, 1, "exact"),))


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@dataclass
class World:
    """One partition of input, as long as it is asked for, and what steps that were finished have written of it."""

    home: Path
    boundaries: dict[int, StepBoundary] = field(default_factory=dict)
    written: dict[int, list[bytes]] = field(default_factory=dict)
    """By step."""
    lives: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        where = CheckpointSpec(str(self.home / "checkpoints"), 1_000, 10, -1)
        layout = replace(SPEC.layout, shuffle_partitions=2)
        self.spec = replace(SPEC, checkpoint=where, layout=layout)

    def engine(self) -> _Engine:
        """Of another life."""
        return _Engine(self, next(self.lives))


class _Engine(CountingEngine):
    """Reads rows that are named after their offsets, and writes nowhere."""

    def __init__(self, world: World, life: int) -> None:
        super().__init__(
            ClusterSettings(bootstrap_servers="nowhere:1"), world.spec, life, world.home / "work", LOG_ID
        )
        self._world, self._life = world, life
        self.wrote: list[bytes] = []

    def _read(self, part: InputRange) -> list[bytes]:
        return [f"row {offset}".encode() for offset in range(part.from_, part.to)]

    def _passed_on(self, part: InputRange, values: Sequence[bytes]) -> list[bytes]:
        self.wrote = super()._passed_on(part, values)
        return self.wrote

    def _writer(self, work: StepWork, writes: bool) -> DigestWriter:
        return super()._writer(work, writes=False)  # type: ignore[return-value]

    async def attempt(self, step: int, from_: int, to: int) -> StepResult:
        division = (InputRange("in", "input", "T1", 0, from_, to),)
        work = StepWork(step, _TOKEN, "t", 1_000 + step, Reason.RECORDS, division, _LAYOUT, ((0, 1),))
        return await self.run_step(work, None)

    async def make(self, step: int, from_: int, to: int) -> None:
        """A step that is committed."""
        result = await self.attempt(step, from_, to)
        await self.finish_step(step)
        made = boundary(step, (from_,), (to,))
        self._world.boundaries[step] = replace(
            made, inputs=result.inputs, outputs=result.outputs, layout=_LAYOUT
        )
        self._world.written[step] = self.wrote

    async def replay(self, step: int) -> None:
        expected = self._world.boundaries[step]
        await self.run_step(work_of(expected, self._spec, 0), expected)
        await self.finish_step(step)

    async def checkpoint(self, step: int) -> Checkpoint:
        await self.pin(step)
        saved = await self.save(step, 1, self._world.spec.checkpoint.location)
        part = SavedPart(0, self._life, saved.manifest, saved.files, saved.size_bytes)
        where = self._world.spec.checkpoint.location
        return Checkpoint("p", step, 1, 0, where, (part,), 1, 2, "", 1, 0, 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def rows(from_: int, to: int) -> list[bytes]:
    return [f"row {offset}".encode() for offset in range(from_, to)]


def test_numbers_go_on_over_steps_lives_and_what_was_not_committed(world: World) -> None:
    async def story() -> None:
        first = world.engine()
        await first.open(0, create=True)
        await first.make(1, 0, 3)
        await first.make(2, 3, 5)
        await first.attempt(3, 5, 9)
        second = world.engine()
        assert second.openable() == (2, 1)
        await second.open(2)
        await second.attempt(3, 5, 6)
        await second.open(2)
        await second.make(3, 5, 8)

    asyncio.run(story())
    expected, _ = counted("p", rows(0, 8))
    assert [row for step in (1, 2, 3) for row in world.written[step]] == expected


def test_a_checkpoint_on_another_disk_is_gone_on_with_by_replays(world: World) -> None:
    async def story() -> None:
        first = world.engine()
        await first.open(0, create=True)
        for step in range(1, 4):
            await first.make(step, 2 * step, 2 * step + 2)
        saved = await first.checkpoint(3)
        await first.make(4, 8, 10)
        world.home.joinpath("work").rename(world.home / "lost")
        second = world.engine()
        assert second.openable() == ()
        assert await second.restorable([saved]) == (3,)
        await second.open(3, checkpoint=saved)
        await second.replay(4)
        await second.make(5, 10, 12)
        assert second.openable() == (5, 4, 3)

    asyncio.run(story())
    assert world.written[5] == counted("p", rows(2, 12))[0][-2:]


def test_after_a_reset_numbers_go_on_as_if_what_is_void_had_never_been(world: World) -> None:
    async def story() -> None:
        engine = world.engine()
        await engine.open(0, create=True)
        await engine.make(1, 0, 2)
        saved = await engine.checkpoint(1)
        for step in range(2, 2 + RETAINED):
            await engine.make(step, step, step + 1)
        assert 1 not in engine.openable()
        await engine.open(1, checkpoint=saved)
        # The reset itself has a number, too.
        await engine.make(3 + RETAINED, 5, 7)
        again = world.engine()
        assert again.openable() == (3 + RETAINED, 1)
        await again.open(3 + RETAINED)
        await again.make(4 + RETAINED, 7, 8)

    asyncio.run(story())
    before, tally = counted("p", rows(0, 2))
    expected, _ = counted("p", rows(5, 8), tally)
    assert world.written[1] == before
    assert [*world.written[3 + RETAINED], *world.written[4 + RETAINED]] == expected


def test_a_replay_on_another_state_is_not_what_the_log_says(world: World) -> None:
    async def story() -> None:
        engine = world.engine()
        await engine.open(0, create=True)
        await engine.make(1, 0, 2)
        await engine.make(2, 2, 4)
        await engine.open(1)
        engine._tallies = {}
        with pytest.raises(StepFailedError, match="output 'out' partition 0 differs") as failed:
            await engine.replay(2)
        assert failed.value.kind is FailureKind.DIGEST

    asyncio.run(story())


def test_the_directory_does_not_grow_with_steps(world: World) -> None:
    async def story() -> tuple[int, int]:
        engine = world.engine()
        await engine.open(0, create=True)
        sizes = []
        for step in range(1, 3 * RETAINED):
            await engine.make(step, step, step + 1)
            if step % RETAINED == RETAINED - 1:
                sizes.append(sum(1 for path in (world.home / "work").rglob("*") if path.is_file()))
        return sizes[-2], sizes[-1]

    before, after = asyncio.run(story())
    assert before <= after <= before + 4


@pytest.mark.parametrize(
    "wrong",
    [
        rows(1, 4),
        [*rows(0, 2), *rows(1, 4)],
        [*rows(1, 2), *rows(0, 1), *rows(2, 4)],
        [b"void", *rows(1, 4)],
    ],
    ids=["lost", "twice", "in another order", "another row"],
)
def test_each_row_tells_of_all_before_it(wrong: list[bytes]) -> None:
    assert counted("p", wrong)[0][-1] != counted("p", rows(0, 4))[0][-1]
    assert counted("p", rows(2, 4), NOTHING)[0] != counted("p", rows(0, 4))[0][2:]
