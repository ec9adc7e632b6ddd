"""What a user asks of single inputs of a pipeline: to be paused, to be read again, or to
go past offsets of a partition.

Nothing is written here. A request is in force once a coordinator's status says that it goes by it
(`inputs_offset`); what becomes of a skip follows from both logs, by the functions that coordinators use
themselves (`outcomes`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

from kcontrol.core.model import InputDesired, InputSpec, PipelinePhase, SkipRequest
from kcontrol.core.step.offsets import is_paused, next_offset
from kcontrol.errors import ConfigurationError, InputGoneError, NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.sessions.ports import Reach
from kcontrol.views.pipeline_projection import PipelineProjection

AT_REST = (PipelinePhase.PAUSED, PipelinePhase.STOPPED, PipelinePhase.HALTED)
"""No step is made, so where the next one begins does not move on while a skip is asked for."""

LookAt = Callable[[InputSpec], Awaitable[Reach]]
"""Looks at an input's topic."""


def pause_request(projection: PipelineProjection, input_name: str, *, paused: bool) -> tuple[InputDesired]:
    """To have an input paused, or read again. Raises NotFoundError: there is no such pipeline or input."""
    projection.input(input_name)
    return (InputDesired(projection.pipeline, input_name, paused, uuid4().hex),)


async def skip_request(
    projection: PipelineProjection, wanted: tuple[str, int, int], by: str, asked_ms: int, look_at: LookAt
) -> tuple[SkipRequest]:
    """To have the next step begin a partition elsewhere. wanted: input, partition, offset to begin at; the
    offset where it begins anyway takes back a skip that waits.

    Raises NotFoundError for a pipeline, input or partition that is not there, ConfigurationError for an
    offset that can't be gone to, NotNowError while steps read the input, InputGoneError for a topic that was
    recreated.
    """
    input_name, partition, to = wanted
    item = projection.input(input_name)
    found = await look_at(item)
    _check_reach(projection, item, partition, found)
    _check_rests(projection, item)
    begin = next_offset(projection.committed, item, partition)
    _check_forward(projection, item, partition, begin, to, found.ends[partition])
    return (SkipRequest(projection.pipeline, input_name, partition, begin, to, by, asked_ms, uuid4().hex),)


def _check_reach(projection: PipelineProjection, item: InputSpec, partition: int, found: Reach) -> None:
    where = f"pipeline {projection.pipeline!r}, input {item.name!r}"
    if found.topic_id != item.topic_id:
        raise InputGoneError(
            f"{where}: topic {item.topic!r} was recreated (its id was {item.topic_id}, now it is "
            f"{found.topic_id}), so its offsets mean nothing to the log; submit the pipeline under a new "
            "name"
        )
    if not 0 <= partition < len(found.ends):
        raise NotFoundError(
            f"{where}: topic {item.topic!r} has no partition {partition}: it has {len(found.ends)}"
        )


def _check_rests(projection: PipelineProjection, item: InputSpec) -> None:
    said, name = projection.view.status(), projection.pipeline
    if said is not None and (said.phase in AT_REST or is_paused(projection.view, item)):
        return
    now = "no coordinator has looked after it yet" if said is None else f"it is {said.phase.value}"
    raise NotNowError(
        f"pipeline {name!r}: offsets are skipped only while no step reads the input, and {now}; first "
        f"kcontrol pause {name}, or kcontrol pause-input {name} {item.name}"
    )


def _check_forward(
    projection: PipelineProjection, item: InputSpec, partition: int, begin: int, to: int, end: int
) -> None:
    where = f"pipeline {projection.pipeline!r}, input {item.name!r}, partition {partition}"
    if to < begin:
        raise ConfigurationError(
            f"{where}: the next step begins at offset {begin}; {to} lies before it, and steps never go back"
        )
    if to > end:
        raise ConfigurationError(f"{where}: the partition ends at offset {end}; {to} lies beyond it")
    waits = projection.view.skip(item.name, partition)
    if to == begin and (waits is None or waits.from_ != begin):
        raise ConfigurationError(
            f"{where}: the next step begins at offset {begin} anyway: there is nothing to skip"
        )
