"""A request about an input, from the record in the control log to the status by which it is in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kcontrol.core.model import Status
from kcontrol.errors import RetriableError
from kcontrol.requests.input_requests import LookAt, SkipTaken, noted, record_pause, record_skip, taken, why_not_yet
from kcontrol.sessions.ports import ControlLog, StepsLog
from kcontrol.views.reader import PipelineReader

_T = TypeVar("_T")


class InputRequests:
    """Reads both logs of one pipeline, checks one request, writes it, and waits until it is in force."""

    def __init__(self, pipeline: str, control: ControlLog, steps: StepsLog, timeout_s: float) -> None:
        """timeout_s: for a coordinator to act on the request."""
        self._logs = PipelineReader(pipeline, control, steps)
        self._timeout_s = timeout_s

    async def pause(self, input_name: str, *, paused: bool) -> Status:
        """Have an input paused, or read again; the status of the coordinator that goes by it, in every step after its `step`.

        Raises what `record_pause` raises. RetriableError: nobody has acted on it in time; it stays.
        """
        await self._logs.read()
        asked = await record_pause(self._logs.control, self._logs, input_name, paused=paused)
        return await self._wait(lambda: noted(self._logs, asked.offset), lambda: "")

    async def skip(self, input_name: str, partition: int, to: int, by: str, asked_ms: int, look_at: LookAt) -> SkipTaken:
        """Have the next step begin a partition at offset `to`. Where it begins anyway, that takes back a skip that waits.

        Raises what `record_skip` raises, KcontrolError when a step has been made of the input since, and RetriableError when it
        is not in force in time; it stays.
        """
        await self._logs.read()
        wanted = (input_name, partition, to)
        request, asked = await record_skip(self._logs.control, self._logs, wanted, by, asked_ms, look_at)
        return await self._wait(lambda: taken(self._logs, request, asked.offset), lambda: why_not_yet(self._logs, request))

    async def _wait(self, done: Callable[[], _T | None], why_not: Callable[[], str]) -> _T:
        try:
            async with asyncio.timeout(self._timeout_s):
                async for chunk in self._logs.control.tail():
                    self._logs.see_control(chunk)
                    await self._logs.read()
                    if (found := done()) is not None:
                        return found
        except TimeoutError:
            why = why_not() or "no coordinator has acted on it"
            raise RetriableError(
                f"pipeline {self._logs.pipeline!r}: the request is recorded, but not in force after {self._timeout_s:g} s: "
                f"{why}; see that a coordinator and all nodes run, and look at kcontrol status"
            ) from None
        raise RetriableError("the control topic ended")
