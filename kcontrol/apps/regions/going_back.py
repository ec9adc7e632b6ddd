"""All pipelines of a region back to a cut: one after the other, each by a reset of its own, those that write before those that
read it.

What one of them wrote in steps that are void then lies in its topics for ever. So whoever reads these topics, and goes back
with it, passes over it: its reset says which offsets those are, and reads on behind them. What is done is told from the
pipelines' own logs, by the rollback's `request_id`: so anybody can go on with it after a crash at any record, and nothing is
done twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kcontrol.apps.kept_steps import KeptSteps
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.reset import ResetPlan, Together, plan_reset_of, reset_pipeline
from kcontrol.apps.specs import all_specs
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.records import RegionCut, RegionRequest, RegionRollback
from kcontrol.core.step.resetting import stands_at, void_ends
from kcontrol.errors import ConfigurationError, KcontrolError, RetriableError
from kcontrol.settings.cluster import ClusterSettings

_Found = TypeVar("_Found")
_AGAIN_S = 1.0
"""Between tries, while something is in the way that a person has to take out of it."""
_AT_ONCE = 16
"""Pipelines that are looked at side by side."""


@dataclass(frozen=True, slots=True)
class BackPlan:
    """One pipeline of a rollback. reset: what is to be done; None: it is back already, or was never beyond. void: where what it
    wrote in void steps ends, by topic and partition."""

    pipeline: str
    to_step: int
    reset: ResetPlan | None
    void: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _LookedBack:
    """What a pipeline's log says. read: the log, as far as that. last: its newest step, if that is at or after the one it goes
    back to. stands: it is there already. done: the step that is its reset of this rollback. void: as in `BackPlan`."""

    read: KeptSteps
    to_step: int
    last: StepBoundary | None
    stands: bool
    done: int | None
    void: Mapping[tuple[str, int], int]

    @property
    def pipeline(self) -> str:
        return self.read.logs.pipeline


async def plan_rollback(
    cluster: ClusterSettings,
    cut: RegionCut,
    request_id: str,
    leave_behind: Collection[str],
    own: Path | None = None,
) -> tuple[BackPlan, ...]:
    """What taking all back would take back, in the order in which it is done; nothing is changed.

    leave_behind, own: as `plan_reset` has them. Raises what that does, of the first pipeline in this order: then nothing may be
    begun. They are looked at side by side, for of each it may take seconds to hear that nobody works for it.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(read: KeptSteps, to_step: int) -> _LookedBack:
        async with gate:
            return await _look(read, to_step, request_id)

    async def plan(looked: _LookedBack, void: Mapping[tuple[str, int], int]) -> BackPlan:
        async with gate:
            together = Together(along, void, request_id, every)
            return await _plan(cluster, looked, leave_behind, own, together)

    along = frozenset(one.pipeline for one in cut.pipelines)
    every = await all_specs(cluster)
    async with _opened(cluster, cut) as logs:
        looked = await _all([look(logs[one.pipeline], one.step) for one in cut.pipelines])
        void: dict[tuple[str, int], int] = {}
        plans = []
        for each in looked:
            plans.append(plan(each, dict(void)))
            void |= each.void
        return tuple(await _all(plans))


@asynccontextmanager
async def _opened(cluster: ClusterSettings, cut: RegionCut) -> AsyncIterator[dict[str, KeptSteps]]:
    """The logs of its pipelines, by name, unread: each is read once, and on, however often it is looked at."""
    async with AsyncExitStack() as stack:
        logs = {
            one.pipeline: await stack.enter_async_context(
                pipeline_logs(cluster, one.pipeline, newest_only=True)
            )
            for one in cut.pipelines
        }
        yield {one.pipeline: KeptSteps(logs[one.pipeline], one.step) for one in cut.pipelines}


async def _all(asked: Sequence[Coroutine[object, object, _Found]]) -> list[_Found]:
    """What each returns. Raises what the first of them, as they are given, raises, once all have ended."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]


async def _plans(
    cluster: ClusterSettings,
    cut: RegionCut,
    request_id: str,
    leave_behind: Collection[str],
    own: Path | None,
) -> AsyncGenerator[BackPlan]:
    """Each is made when it is asked for, by what the logs say then."""
    along = frozenset(one.pipeline for one in cut.pipelines)
    void: dict[tuple[str, int], int] = {}
    every = await all_specs(cluster)
    async with _opened(cluster, cut) as logs:
        # Side by side, and listened to from then on. What is wrong with one is said when it is its turn.
        await asyncio.gather(*(each.read() for each in logs.values()), return_exceptions=True)
        for one in cut.pipelines:
            looked = await _look(logs[one.pipeline], one.step, request_id)
            together = Together(along, dict(void), request_id, every)
            yield await _plan(cluster, looked, leave_behind, own, together)
            void |= looked.void


async def _look(read: KeptSteps, to_step: int, request_id: str) -> _LookedBack:
    await read.read()
    steps = read.logs.committed
    later = await read.boundaries(max(1, to_step)) if steps.step >= to_step else []
    done = next((one.step for one in later if _is_of(one, request_id)), None)
    void = void_ends(one for one in later if to_step < one.step and (done is None or one.step < done))
    last = later[-1] if later else None
    return _LookedBack(read, to_step, last, stands_at(steps, to_step), done, void)


async def _plan(
    cluster: ClusterSettings,
    looked: _LookedBack,
    leave_behind: Collection[str],
    own: Path | None,
    together: Together,
) -> BackPlan:
    pipeline, to_step = looked.pipeline, looked.to_step
    if _is_back(looked, together.void):
        return BackPlan(pipeline, to_step, None, looked.void)
    reset = await plan_reset_of(cluster, looked.read, to_step, leave_behind, own, together)
    return BackPlan(pipeline, to_step, reset, looked.void)


def _is_back(looked: _LookedBack, void: Mapping[tuple[str, int], int]) -> bool:
    """void: of those whose topics it may read. Raises ConfigurationError as `_is_behind` does."""
    if looked.done is not None:
        return True
    return looked.last is not None and looked.stands and not _is_behind(looked.pipeline, looked.last, void)


def _is_of(boundary: StepBoundary, request_id: str) -> bool:
    return boundary.reset is not None and boundary.reset.request_id == request_id


def _is_behind(pipeline: str, last: StepBoundary, void: Mapping[tuple[str, int], int]) -> bool:
    """Whether it would read what others of the region wrote in void steps. Raises ConfigurationError."""
    reads = {(piece.topic, piece.partition): piece.to for piece in last.inputs}
    topics = {topic for topic, _ in reads}
    for topic, partition in void:
        if topic in topics and (topic, partition) not in reads:
            raise ConfigurationError(
                f"pipeline {pipeline!r}: topic {topic!r} has partition {partition} since after the step that it would go back "
                "to, and what void steps wrote there can't be passed over: begin it anew under another name. Nothing was reset"
            )
    return any(void.get(place, 0) > to for place, to in reads.items())


class RegionRollbacks:
    """Of one region: the part of `RegionMembers` that takes back. What it does takes longer than a controller may be silent, so
    it is done beside, and looked at again and again; but each reset waits for a call, which only who is in charge makes.

    Files of checkpoints are looked at by the command, which knows where they are; here they are not.
    """

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._checking: tuple[str, asyncio.Task[str]] | None = None
        self._working: tuple[str, asyncio.Task[None]] | None = None
        """By the `request_id` of the rollback."""
        self._called = asyncio.Event()
        self._back: frozenset[str] = frozenset()
        self._again_s = 0.0
        self.waits_for: tuple[str, ...] = ()

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        """As the port says."""
        if self._checking is None or self._checking[0] != request.request_id:
            self._end_check()
            self._checking = request.request_id, asyncio.create_task(self._looked_at(cut, request))
        task = self._checking[1]
        if not task.done():
            return None
        self._checking = None
        return task.result()

    async def _looked_at(self, cut: RegionCut, request: RegionRequest) -> str:
        try:
            await plan_rollback(self._cluster, cut, request.request_id, request.leave_behind)
        except RetriableError:
            raise
        except KcontrolError as error:
            return str(error)
        return ""

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """As the port says."""
        if self._working is not None:
            key, task = self._working
            if task.done():
                self._ended(task)
            elif key != rollback.request_id:
                self._end_work()
        if self._working is None and time.monotonic() >= self._again_s:
            self._back = frozenset()
            self._working = rollback.request_id, asyncio.create_task(self._go_back(cut, rollback))
        self._called.set()
        return self._back

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What was in the way is said until it is tried again. Raises what nobody can take out of it."""
        self._working, self._again_s = None, time.monotonic() + _AGAIN_S
        error = task.exception()
        if error is not None and not isinstance(error, KcontrolError):
            raise error
        self.waits_for = () if error is None else (str(error),)

    async def _go_back(self, cut: RegionCut, rollback: RegionRollback) -> None:
        """Who hung, and is in charge no more, does nothing by a plan of then: it is not called again, and a reset is refused
        whose log has gone on since it was planned."""
        why = f"{rollback.why} (" if rollback.why else "("
        why += f"region {cut.region} back to cut {cut.number})"
        plans = _plans(self._cluster, cut, rollback.request_id, rollback.leave_behind, None)
        async with aclosing(plans):
            async for plan in plans:
                if plan.reset is not None:
                    self._called.clear()
                    await self._called.wait()
                    await reset_pipeline(self._cluster, plan.reset, why, rollback.by)
                self._back |= {plan.pipeline}

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """As the port says. One that can't be looked at, because it was deleted or can't be read, is not back."""
        if self._working is not None:
            task = self._working[1]
            self._end_work()
            await asyncio.wait([task])
        back, void = set[str](), dict[tuple[str, int], int]()
        looks = (self._look(one.pipeline, one.step, rollback.request_id) for one in cut.pipelines)
        for found in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(found, RetriableError) or (
                isinstance(found, BaseException) and not isinstance(found, KcontrolError)
            ):
                raise found
            if isinstance(found, _LookedBack):
                with suppress(ConfigurationError):
                    back |= {found.pipeline} if _is_back(found, void) else set()
                void |= found.void
        return frozenset(back)

    async def _look(self, pipeline: str, to_step: int, request_id: str) -> _LookedBack:
        async with pipeline_logs(self._cluster, pipeline, newest_only=True) as logs:
            return await _look(KeptSteps(logs, to_step), to_step, request_id)

    def let_go(self) -> None:
        """Nothing more is begun. What was under way leaves a reset or no trace."""
        self._end_check()
        self._end_work()
        self._back, self._again_s, self.waits_for = frozenset(), 0.0, ()

    def _end_check(self) -> None:
        if self._checking is not None:
            self._checking[1].cancel()
            self._checking = None

    def _end_work(self) -> None:
        if self._working is not None:
            self._working[1].cancel()
            self._working = None
