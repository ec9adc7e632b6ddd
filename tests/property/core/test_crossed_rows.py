"""Rows that nodes send each other, in a log with resets: what counts is as if void steps had never been, but for numbers and
offsets, and all that nodes may have to take once more is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.adapters.kafka.exchange.purge import begins_of
from kcontrol.core.coordinator.checkpointing import making_room
from kcontrol.core.log.resets import kept
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    CheckpointSpec,
    EventTimes,
    ExchangeLayout,
    ExchangeRun,
    ExchangeSlice,
    Layout,
    LoggedStep,
    Reset,
    StepBoundary,
    StepRecord,
    Tombstone,
)
from kcontrol.core.step.exchange import content, runs_for
from kcontrol.core.step.resetting import (
    begins_at,
    crossed,
    going_back,
    lost_rows,
    refused_exchanges,
    refused_standing,
    refused_step,
    void_checkpoints,
)
from kcontrol.core.step.watermarks import after_step, moved
from tests.unit.core.made import LIMITS, boundary, checkpoint
from tests.unit.core.staged import SHARED, digest, sent

NODES, SLOTS = 2, 2
LAYOUT = Layout((), 4, (), (ExchangeLayout("x", 1, 1),))
SPEC = replace(SHARED, nodes=NODES)
_POLICY = CheckpointSpec("file:///c", 1, 2, -1)


@dataclass(frozen=True)
class Step:
    """What goes into one. rows: by slot and node. times: by node, the greatest event time of each operator."""

    rows: tuple[tuple[int, ...], ...]
    times: tuple[tuple[int, int], ...]


@dataclass
class World:
    """A log of steps and the topic of an exchange, as they come to be by what happens. deleted: by slot, what lies before."""

    keep_steps: int = -1
    log: list[LoggedStep] = field(default_factory=list)
    view: StepsView = field(default_factory=lambda: StepsView("p"))
    made: dict[int, StepBoundary] = field(default_factory=dict)
    of: dict[int, Step] = field(default_factory=dict)
    records: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By slot and offset: of which step, for which node."""
    ends: list[int] = field(default_factory=lambda: [0] * SLOTS)
    deleted: list[int] = field(default_factory=lambda: [0] * SLOTS)

    def append(self, *records: StepRecord | Tombstone) -> None:
        for record in records:
            self.log.append(LoggedStep(len(self.log), record))
            self.view = evolve(self.view, self.log[-1])

    def step(self, given: Step) -> None:
        number, last = self.view.step + 1, self.view.last
        ends = (5, 0) if last is None else tuple(piece.to for piece in last.inputs)
        before = () if last is None else last.watermarks
        slices = tuple(self._send(number, slot, rows) for slot, rows in enumerate(given.rows))
        seen = (EventTimes("q", node, times) for node, times in enumerate(given.times))
        watermarks = after_step(SPEC, before, seen)
        self.made[number] = replace(
            boundary(number, ends, tuple(end + 1 for end in ends), nodes=NODES),
            layout=LAYOUT,
            exchanges=slices,
            watermarks=watermarks,
            watermark_moved=moved(before, watermarks),
        )
        self.of[number] = given
        self.append(self.made[number])

    def _send(self, step: int, slot: int, rows: Sequence[int]) -> ExchangeSlice:
        """A record a row; the transaction's marker follows."""
        runs, at = [], self.ends[slot]
        for node, count in enumerate(rows):
            for offset in range(at, at + count):
                self.records[slot, offset] = step, node
            if count:
                runs.append(ExchangeRun(node, at, at + count, count, digest(step * 10 + node)))
            at += count
        self.ends[slot] = at + bool(runs)
        return sent(slot, *runs)

    def save(self, pick: int) -> None:
        later = [one for one in self.made if one > self.view.checkpoint and self.view.void_by(one) is None]
        if not later:
            return
        number = later[pick % len(later)]
        offset = next(
            each.offset
            for each in self.log
            if isinstance(each.record, StepBoundary) and each.record.step == number
        )
        record = replace(checkpoint(number, NODES), boundary_offset=offset)
        policy = replace(_POLICY, keep_steps=self.keep_steps)
        record, gone = making_room(self.view, record, policy, replace(LIMITS, max_forgotten=100))
        self.append(record, *map(Tombstone, gone))
        read = [each for each in self.log if isinstance(each.record, StepBoundary)]
        begins = begins_of([each for each in read if each.record.step == self.view.first], self.view.first)  # type: ignore[union-attr]
        for slot, begin in begins.get("x", {}).items():
            self.deleted[slot] = max(self.deleted[slot], begin)

    def reset(self, pick: int) -> None:
        places = [one for one in range(1, self.view.step + 1) if self.may_go_back(one)]
        if not places or self.view.last is None:
            return
        to = places[pick % len(places)]
        asked, back = Reset(to, "", "me", "r", ()), self.made[self.view.made_by(to)]
        record = going_back(self.view.last, back, asked, (7, 9), 0, self.view.now_ms + 1)
        self.append(record, *map(Tombstone, void_checkpoints(self.view, to)))

    def may_go_back(self, step: int) -> bool:
        return not (refused_step(SPEC, self.view, step) or refused_standing(SPEC, self.view, step))

    def left(self) -> list[StepBoundary]:
        return kept(each.record for each in self.log if isinstance(each.record, StepBoundary))

    def taken(self, one: StepBoundary, node: int) -> list[tuple[int, int]]:
        """The records that a node takes that runs a step again."""
        runs = [(piece.partition, run) for piece in runs_for(one.exchanges, node) for run in piece.runs]
        return [self.records[slot, offset] for slot, run in runs for offset in range(run.from_, run.to)]


_COUNT = st.sampled_from((0, 0, 1, 3))
_TIME = st.sampled_from((0, 20, 50, 90, 5_000))
_STEPS = st.builds(
    Step,
    st.tuples(*[st.tuples(*[_COUNT] * NODES)] * SLOTS),
    st.tuples(*[st.tuples(_TIME, _TIME)] * NODES),
)
_HAPPENS = st.one_of(
    _STEPS, _STEPS, st.tuples(st.sampled_from(("save", "save", "reset", "reset")), st.integers(0, 9))
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World(draw(st.sampled_from((0, 0, 3))))
    for event in draw(st.lists(_HAPPENS, max_size=15)):
        if isinstance(event, Step):
            world.step(event)
        elif event[0] == "save":
            world.save(event[1])
        else:
            world.reset(event[1])
    return world


def folded(world: World, boundaries: Iterable[StepBoundary]) -> list[object]:
    """What the state of nodes is made of, without numbers and offsets."""
    return [
        (
            [[node for _, node in world.taken(one, node)] for node in range(NODES)],
            [
                content(run for piece in runs_for(one.exchanges, node) for run in piece.runs)[0]
                for node in range(NODES)
            ],
            one.watermarks,
            one.watermark_moved,
            [(piece.to - piece.from_, piece.to) for piece in one.inputs],
        )
        for one in boundaries
    ]


@given(worlds())
def test_what_crossed_and_the_watermark_are_those_of_a_log_in_which_void_steps_never_were(
    world: World,
) -> None:
    plain = World()
    for one in world.left():
        plain.step(world.of[one.step])
    assert folded(world, world.left()) == folded(plain, plain.left())
    for one in world.left():
        assert {step for node in range(NODES) for step, _ in world.taken(one, node)} <= {one.step}, (
            "rows of no other step"
        )
    if world.view.last is None or plain.view.last is None:
        assert world.view.last == plain.view.last
        return
    now, then = world.view.last, plain.view.last
    assert (now.watermarks, now.watermark_moved) == (then.watermarks, then.watermark_moved)
    assert world.view.next_from == plain.view.next_from


@given(worlds())
def test_wherever_can_be_gone_back_to_is_all_that_nodes_take_once_more(world: World) -> None:
    for step in range(1, world.view.step + 1):
        begin = begins_at(world.view, step)
        if not world.may_go_back(step) or begin is None:
            continue
        again = [one for one in world.left() if begin < one.step <= step]
        assert not refused_exchanges(SPEC, again)
        wanted = crossed(again).get("x", {})
        assert lost_rows(wanted, world.deleted, world.ends) is None
        for one in again:
            for piece in one.exchanges:
                for run in piece.runs:
                    first, last = wanted[piece.partition]
                    assert first <= run.from_ < run.to <= last
