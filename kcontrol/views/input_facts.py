"""What is said of the inputs of a pipeline: what waits, whether it is paused, what is to be skipped."""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.log.keys import input_key
from kcontrol.core.model import SkipRequest
from kcontrol.core.step.offsets import is_paused
from kcontrol.core.step.skips import overtaken, unseen
from kcontrol.views.base import Facts
from kcontrol.views.pipeline_projection import Lag, PipelineProjection
from kcontrol.wire.addresses import kind_of

INPUT_KIND = (
    "topic (of Kafka; rows that are pushed over HTTP are in one, too), file (also several, on a disk, at a URL or in S3), "
    "generator or clock."
)


class WaitingSkip(Facts):
    """A user's request to go past offsets of a partition that no step has gone by yet."""

    partition: int
    from_: int = Field(alias="from", description="The first offset that is passed over.")
    to: int = Field(description="Where the next step begins instead.")
    by: str = Field(description="Who asked.")
    asked_ms: int = Field(description="When, in milliseconds since 1970.")
    waits_for: str = Field(description="Why the next step will not go by it yet; '' if it will.")


class WaitingInput(Facts):
    """What of an input is not in a committed step yet."""

    input: str
    kind: str = Field(description=INPUT_KIND)
    waiting: int = Field(
        description="Records beyond the last committed step, at most: offsets, less those that are known "
        "to hold none."
    )
    waiting_ms: int | None = Field(
        description="For how long the oldest of it has been known to wait; 0 if nothing waits, null if "
        "that is not known."
    )
    unasked: str = Field(
        description="Why Kafka could not be asked where the input ends, so that only what nodes have said "
        "counts; '' if it was."
    )
    paused: bool = Field(description="Whether no step shall read it.")
    noted: bool = Field(description="Whether the coordinator goes by whether it is paused.")
    skips: list[WaitingSkip]


def waiting_inputs(projection: PipelineProjection, now_ms: int) -> list[WaitingInput]:
    """By input. now_ms: by the clock of whoever looks."""
    return [_waiting_input(projection, lag, now_ms) for lag in projection.lags()]


def _waiting_input(projection: PipelineProjection, lag: Lag, now_ms: int) -> WaitingInput:
    spec, view = projection.spec(), projection.view
    item = next(one for one in spec.inputs if one.name == lag.input)
    said, asked = view.status(), view.latest.get(input_key(view.pipeline, lag.input))
    return WaitingInput(
        input=lag.input,
        kind=kind_of(item.topic),
        waiting=lag.offsets,
        waiting_ms=0 if not lag.offsets else None if lag.since_ms is None else max(0, now_ms - lag.since_ms),
        unasked=lag.unasked,
        paused=is_paused(view, item),
        noted=asked is None or (said is not None and said.inputs_offset >= asked.offset),
        skips=[
            _waiting_skip(projection, skip)
            for place in sorted(view.skips)
            if place[0] == lag.input
            and (skip := view.skip(*place)) is not None
            and skip.from_ < skip.to
            and not overtaken(spec, projection.committed, view, skip)
        ],
    )


def _waiting_skip(projection: PipelineProjection, skip: SkipRequest) -> WaitingSkip:
    said = {
        "partition": skip.partition,
        "from": skip.from_,
        "to": skip.to,
        "by": skip.by,
        "asked_ms": skip.asked_ms,
        "waits_for": unseen(projection.spec(), projection.committed, projection.view, skip),
    }
    return WaitingSkip.model_validate(said)
