"""Waiting for what a pipeline's logs say: one reader follows them, so that no look at them costs a process.

A look through the command line takes a second of processor time, which a busy machine of two cores does not
have beside what is waited for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.model import LoggedStep, StepBoundary
from kcontrol.errors import KcontrolError, NotFoundError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus, status_of

LOOK_EVERY_S = 0.1
"""Also for what time alone changes: nobody says that he is silent."""


def until_status(
    settings: ClusterSettings,
    pipeline: str,
    condition: Callable[[PipelineStatus], object],
    what: str,
    timeout_s: float,
) -> PipelineStatus:
    """Wait until the status, as `kcontrol status` makes it of both logs, is as wanted; fails the test with
    `what` and the last status after `timeout_s`."""
    seen: list[PipelineStatus] = []
    fault = ""

    async def follow() -> None:
        nonlocal fault
        async with pipeline_logs(settings, pipeline) as logs:
            while not seen or not condition(seen[-1]):
                try:
                    await logs.read()
                    await logs.listen(SystemClock())
                    seen[:] = [status_of(logs, SystemClock().now_ms())]
                    fault = ""
                except (NotFoundError, TopicError, RetriableError) as error:
                    fault = str(error)  # not submitted yet, or Kafka is away
                if not seen or not condition(seen[-1]):
                    await asyncio.sleep(LOOK_EVERY_S)

    _run(follow, what, timeout_s, lambda: f"{seen}\n{fault}")
    return seen[-1]


def until_read(
    settings: ClusterSettings,
    pipeline: str,
    condition: Callable[[Counter[str]], object],
    what: str,
    timeout_s: float,
    hint: Callable[[], str] = str,
) -> None:
    """Wait until the records of each input that are in committed steps and not void, or were skipped, are as wanted."""
    read: Counter[str] = Counter()
    by_step: dict[int, Counter[str]] = {}

    async def follow() -> None:
        async with aclosing(_tail(settings, pipeline)) as tail:
            async for logged in tail:
                _count(read, by_step, logged)
                if condition(+read):
                    return

    _run(follow, what, timeout_s, lambda: f"read {dict(read)}\n{hint()}")


def until_step(
    settings: ClusterSettings,
    pipeline: str,
    condition: Callable[[StepBoundary], object],
    what: str,
    timeout_s: float,
    hint: Callable[[], str] = str,
) -> None:
    """Wait for a committed step as wanted."""

    async def follow() -> None:
        async with aclosing(_tail(settings, pipeline)) as tail:
            async for logged in tail:
                if any(isinstance(each.record, StepBoundary) and condition(each.record) for each in logged):
                    return

    _run(follow, what, timeout_s, hint)


async def _tail(settings: ClusterSettings, pipeline: str) -> AsyncIterator[list[LoggedStep]]:
    """All committed steps, and an empty list before the first and whenever Kafka had to be asked anew."""
    steps = KafkaStepsLog(settings, pipeline)
    try:
        while True:
            yield []
            try:
                async with aclosing(steps.tail()) as tail:
                    async for logged in tail:
                        yield logged
            except (TopicError, RetriableError):
                await asyncio.sleep(LOOK_EVERY_S)
    finally:
        await steps.close()


def _count(read: Counter[str], by_step: dict[int, Counter[str]], logged: list[LoggedStep]) -> None:
    for each in logged:
        if not isinstance(each.record, StepBoundary):
            continue
        back = each.record.reset
        for void in [step for step in by_step if back is not None and step > back.to_step]:
            read.subtract(by_step.pop(void))
        of_step: Counter[str] = Counter()
        for piece in each.record.inputs:
            of_step[piece.input] += piece.records
        for skipped in each.record.skipped_ranges:
            of_step[skipped.input] += skipped.to - skipped.from_
        by_step[each.record.step] = of_step
        read.update(of_step)


def _run(
    follow: Callable[[], Coroutine[Any, Any, None]], what: str, timeout_s: float, hint: Callable[[], str]
) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(timeout_s):
            await follow()

    try:
        asyncio.run(bounded())
    except TimeoutError:
        raise AssertionError(f"after {timeout_s:g} s still not: {what}\n{hint()}") from None
    except KcontrolError as error:
        raise AssertionError(f"while it was waited for that {what}: {error}\n{hint()}") from error
