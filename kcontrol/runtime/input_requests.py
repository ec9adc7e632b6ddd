"""What a user asks of single inputs of a pipeline: to be paused, to be read again, or to go past offsets of a partition.

A request is a record in the control log, so it outlives every process. It is in force once a coordinator's status says that it
goes by it (`inputs_offset`); what becomes of a skip follows from both logs, by the functions that coordinators use themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from kcontrol.core import pipeline_view, steps_view
from kcontrol.core.inputs import is_paused, next_offset
from kcontrol.core.model import (
    InputDesired,
    InputSpec,
    Logged,
    PipelinePhase,
    PipelineSpec,
    SkipRequest,
    Status,
    StepBoundary,
)
from kcontrol.core.pipeline_view import PipelineView
from kcontrol.core.skips import overtaken, unseen
from kcontrol.core.steps_view import StepsView
from kcontrol.errors import ConfigurationError, InputGoneError, KcontrolError, NotFoundError, RetriableError
from kcontrol.runtime.ports import ControlLog, StepsLog

_T = TypeVar("_T")

AT_REST = (PipelinePhase.PAUSED, PipelinePhase.STOPPED, PipelinePhase.HALTED)
"""No step is made, so where the next one begins does not move on while a skip is asked for."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A topic as the broker knows it now. ends: by partition, the offset after the last committed record."""

    topic_id: str
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SkipTaken:
    """A skip that is in force. step: the one that begins at `request.to`; committed: whether it is in the log already."""

    request: SkipRequest
    step: int
    committed: bool


class InputRequests:
    """Reads both logs of one pipeline from their beginnings, checks one request, writes it, and waits until it is in force."""

    def __init__(self, pipeline: str, control: ControlLog, steps: StepsLog, timeout_s: float) -> None:
        """timeout_s: for a coordinator to act on the request."""
        self._control = control
        self._steps = steps
        self._timeout_s = timeout_s
        self._view = PipelineView.empty(pipeline)
        self._committed = StepsView(pipeline)
        self._since: list[StepBoundary] = []
        """The boundaries that were read after the request was written."""

    async def pause(self, input_name: str, *, paused: bool) -> Status:
        """Have an input paused, or read again; the status of the coordinator that goes by it, in every step after its `step`.

        Raises NotFoundError: there is no such pipeline or input. RetriableError: nobody has acted on it in time; it stays.
        """
        await self._read()
        self._input(input_name)
        request = InputDesired(self._view.pipeline, input_name, paused, uuid4().hex)
        (offset,) = await self._control.append([request])
        return await self._wait(lambda: self._noted(offset), lambda: "")

    async def skip(
        self, input_name: str, partition: int, to: int, by: str, asked_ms: int, reach: Callable[[InputSpec], Awaitable[Reach]]
    ) -> SkipTaken:
        """Have the next step begin a partition at offset `to`. Where it begins anyway, that takes back a skip that waits.

        reach: looks at the input's topic. Raises NotFoundError for a pipeline, input or partition that is not there,
        ConfigurationError for an offset that can't be gone to, KcontrolError when steps read the input, or one has since,
        InputGoneError for a topic that was made anew, and RetriableError when it is not in force in time; it stays.
        """
        await self._read()
        item = self._input(input_name)
        found = await reach(item)
        self._check_reach(item, partition, found)
        self._check_rests(item)
        begin = next_offset(self._committed, item, partition)
        self._check_forward(item, partition, begin, to, found.ends[partition])
        request = SkipRequest(self._view.pipeline, input_name, partition, begin, to, by, asked_ms, uuid4().hex)
        (offset,) = await self._control.append([request])
        return await self._wait(lambda: self._taken(request, offset), lambda: self._not_yet(request))

    # --- what may be asked ----------------------------------------------------------------------------------------------

    def _spec(self) -> PipelineSpec:
        spec = self._view.spec()
        if spec is None:
            raise NotFoundError(
                f"there is no pipeline {self._view.pipeline!r} in this cluster; a node submits one when it starts: "
                "kcontrol run FILE.py"
            )
        return spec

    def _input(self, name: str) -> InputSpec:
        spec = self._spec()
        found = next((item for item in spec.inputs if item.name == name), None)
        if found is None:
            known = ", ".join(item.name for item in spec.inputs)
            raise NotFoundError(f"pipeline {spec.pipeline!r} has no input {name!r}; it has {known}")
        return found

    def _check_reach(self, item: InputSpec, partition: int, found: Reach) -> None:
        where = f"pipeline {self._view.pipeline!r}, input {item.name!r}"
        if found.topic_id != item.topic_id:
            raise InputGoneError(
                f"{where}: topic {item.topic!r} was made anew (its id was {item.topic_id}, now it is {found.topic_id}), so its "
                "offsets mean nothing to the log; submit the pipeline under a new name"
            )
        if not 0 <= partition < len(found.ends):
            raise NotFoundError(f"{where}: topic {item.topic!r} has no partition {partition}: it has {len(found.ends)}")

    def _check_rests(self, item: InputSpec) -> None:
        said, name = self._view.status(), self._view.pipeline
        if said is not None and (said.phase in AT_REST or is_paused(self._view, item)):
            return
        now = "no coordinator has looked after it yet" if said is None else f"it is {said.phase.value}"
        raise KcontrolError(
            f"pipeline {name!r}: offsets are skipped only while no step reads the input, and {now}; first "
            f"kcontrol pause {name}, or kcontrol pause-input {name} {item.name}"
        )

    def _check_forward(self, item: InputSpec, partition: int, begin: int, to: int, end: int) -> None:
        where = f"pipeline {self._view.pipeline!r}, input {item.name!r}, partition {partition}"
        if to < begin:
            raise ConfigurationError(
                f"{where}: the next step begins at offset {begin}; {to} lies before it, and steps never go back"
            )
        if to > end:
            raise ConfigurationError(f"{where}: the partition ends at offset {end}; {to} lies beyond it")
        waits = self._view.skip(item.name, partition)
        if to == begin and (waits is None or waits.from_ != begin):
            raise ConfigurationError(f"{where}: the next step begins at offset {begin} anyway: there is nothing to skip")

    # --- what became of it ----------------------------------------------------------------------------------------------

    def _noted(self, offset: int) -> Status | None:
        said = self._view.status()
        return said if said is not None and said.inputs_offset >= offset else None

    def _taken(self, request: SkipRequest, offset: int) -> SkipTaken | None:
        for boundary in self._since:
            if any(one.request_id == request.request_id for one in boundary.skipped_ranges):
                return SkipTaken(request, boundary.step, committed=True)
        if self._noted(offset) is None:
            return None
        if why := overtaken(self._spec(), self._committed, self._view, request):
            raise KcontrolError(f"pipeline {request.pipeline!r}: nothing was skipped: {why}")
        return None if self._not_yet(request) else SkipTaken(request, self._committed.step + 1, committed=False)

    def _not_yet(self, request: SkipRequest) -> str:
        return unseen(self._spec(), self._committed, self._view, request)

    # --- the logs -------------------------------------------------------------------------------------------------------

    async def _wait(self, done: Callable[[], _T | None], why_not: Callable[[], str]) -> _T:
        try:
            async with asyncio.timeout(self._timeout_s):
                async for chunk in self._control.tail():
                    self._fold(chunk)
                    await self._read_steps()
                    if (found := done()) is not None:
                        return found
        except TimeoutError:
            why = why_not() or "no coordinator has acted on it"
            raise RetriableError(
                f"pipeline {self._view.pipeline!r}: the request is recorded, but not in force after {self._timeout_s:g} s: "
                f"{why}; see that a coordinator and all nodes run, and look at kcontrol status"
            ) from None
        raise RetriableError("the control topic ended")

    async def _read(self) -> None:
        self._fold(await self._control.read_to_end())
        self._spec()
        await self._read_steps()
        self._since.clear()

    async def _read_steps(self) -> None:
        for logged in await self._steps.read_to_end():
            self._committed = steps_view.evolve(self._committed, logged)
            if isinstance(logged.record, StepBoundary):
                self._since.append(logged.record)

    def _fold(self, records: Sequence[Logged]) -> None:
        for logged in records:
            self._view = pipeline_view.evolve(self._view, logged)
