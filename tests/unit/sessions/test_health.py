"""A process that hangs is found from within, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import fields

import pytest

from kcontrol.core.events import CloseEngine, FinishStep, NodeEvent, OpenEngine, PinStep, RunStep
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, LimitsSpec
from kcontrol.definition.durations import duration_ms
from kcontrol.definition.limits import Limits
from kcontrol.errors import HungError
from kcontrol.sessions.engine_jobs import GRACE_MS, EngineJobs, time_limit
from kcontrol.sessions.health import DEFAULT_LIMITS, DEFAULT_SILENCE_MS, SHARES, HangLimits, Health
from kcontrol.sessions.restorable import find_restorable
from tests.unit.core.made import LIMITS, checkpoint
from tests.unit.sessions.engines import Clock, ScriptedEngine
from tests.unit.sessions.test_engine_jobs import work


class Hand:
    """A monotonic clock."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


LOOP_LIMIT_MS = DEFAULT_LIMITS.loop_ms


def test_an_event_loop_that_does_not_turn_is_found() -> None:
    hand = Hand()
    health = Health(monotonic_ms=hand)
    hand.now_ms += 10 * LOOP_LIMIT_MS
    assert health.wrong() == "", "nothing is judged before it has begun"
    health.beat()
    hand.now_ms += LOOP_LIMIT_MS
    assert health.wrong() == ""
    hand.now_ms += 1
    assert health.wrong() == f"its event loop has not turned for {LOOP_LIMIT_MS + 1} ms"
    health.beat()
    assert health.wrong() == ""
    health.rests()
    hand.now_ms += 2 * LOOP_LIMIT_MS
    assert health.wrong() == ""


def test_all_limits_of_what_hangs_follow_from_one_setting() -> None:
    assert duration_ms(Limits().silence_timeout) == DEFAULT_SILENCE_MS
    assert HangLimits.of(DEFAULT_SILENCE_MS) == HangLimits()
    assert set(SHARES) == {each.name for each in fields(HangLimits)} - {"silence_ms"}
    longer = HangLimits.of(2 * DEFAULT_SILENCE_MS)
    assert (longer.silence_ms, longer.loop_ms, longer.patience_ms, longer.start_ms) == (
        120_000,
        60_000,
        20_000,
        600_000,
    )
    shorter = HangLimits.of(20_000)
    assert (shorter.silence_ms, shorter.loop_ms, shorter.patience_ms) == (20_000, 10_000, 3_333)
    assert (shorter.start_ms, shorter.stop_ms) == (120_000, 20_000), "what takes its time has it"
    assert (longer.binding_ms, shorter.binding_ms) == (60_000, 20_000)
    for silence_ms in (3_000, 20_000, DEFAULT_SILENCE_MS, 600_000):
        limits = HangLimits.of(silence_ms)
        assert limits.loop_ms + limits.patience_ms <= max(silence_ms, 8_000), (
            "a node finds itself before others do"
        )


def test_work_that_takes_too_long_is_found() -> None:
    hand = Hand()
    health = Health(monotonic_ms=hand)
    health.beat()
    with health.at_work("opening step 5", 400):
        hand.now_ms += 400
        assert health.wrong() == ""
        hand.now_ms += 1
        assert health.wrong() == "opening step 5 has taken 401 ms, more than 400 ms"
    assert health.wrong() == ""


class StuckEngine(ScriptedEngine):
    """Its JVM was stopped: nothing is ever answered."""

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        await asyncio.Event().wait()


class StuckStore(ScriptedEngine):
    """The storage of checkpoints hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        self.asked.set()
        await asyncio.Event().wait()
        return ()


def test_while_the_storage_of_checkpoints_does_not_answer_the_probe_says_so() -> None:
    async def run() -> None:
        hand = Hand()
        health, engine = Health(monotonic_ms=hand), StuckStore()
        steps = StepsView("p", checkpoints=(checkpoint(5, 1),))
        looking = asyncio.create_task(
            find_restorable(engine, steps, LIMITS, health, logging.getLogger("test"))
        )
        await engine.asked.wait()
        assert health.wrong() == ""
        hand.now_ms += 7
        limit_ms = LIMITS.save_timeout_ms + GRACE_MS
        assert health.doing() == f"looking which checkpoints can be opened for 7 ms, at most {limit_ms} ms"
        looking.cancel()
        await asyncio.wait([looking])
        assert health.doing() == ""

    asyncio.run(run())


def test_an_engine_that_does_not_answer_ends_the_line_of_work() -> None:
    async def run() -> None:
        limits = LimitsSpec(
            **{**{name: getattr(LIMITS, name) for name in LIMITS.__dataclass_fields__}, "open_timeout_ms": 1}
        )
        events: list[NodeEvent] = []
        jobs = EngineJobs(StuckEngine(), Clock(), events.append, logging.getLogger("test"), limits)
        jobs.put(OpenEngine(5, False))
        with pytest.raises(HungError, match="opening step 5"):
            await jobs.run()
        assert jobs.hung
        assert events == []

    import kcontrol.sessions.engine_jobs as module

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "GRACE_MS", 10)
        asyncio.run(run())


@pytest.mark.parametrize(
    ("effect", "what", "limit_ms"),
    [
        (OpenEngine(5, False), "opening step 5", LIMITS.open_timeout_ms),
        (
            OpenEngine(5, False, checkpoint(5, 1)),
            "opening step 5",
            LIMITS.open_timeout_ms + LIMITS.save_timeout_ms,
        ),
        (RunStep(work(6), None), "running step 6", 2 * LIMITS.step_timeout_ms),
        (FinishStep(6), "finishing step 6", LIMITS.step_timeout_ms),
        (PinStep(6), "pinning step 6", LIMITS.step_timeout_ms + LIMITS.pin_timeout_ms),
        (CloseEngine(), "closing", LIMITS.open_timeout_ms),
    ],
)
def test_every_call_of_the_engine_has_a_limit(
    effect: OpenEngine | RunStep | FinishStep | PinStep | CloseEngine, what: str, limit_ms: int
) -> None:
    assert time_limit(effect, LIMITS) == (what, limit_ms + GRACE_MS)
