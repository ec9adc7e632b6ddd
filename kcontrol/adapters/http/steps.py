"""`/v1/pipelines/{pipeline}/steps`, `/stats` and `/completion`: committed steps, by number and by offset."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_PAGE_SIZE, MAX_WAIT_S, PAGE_SIZE
from kcontrol.adapters.http.plane import MAX_LONG, AsOf, Plane, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.record_models import model_of
from kcontrol.adapters.http.record_texts import answer_with
from kcontrol.core.model import StepBoundary
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.views.completion import Completion, InputRecord, completions, is_complete, parse_token
from kcontrol.views.fates import fates
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.void_steps import VoidSince

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["steps"])

MAX_TOKEN_CHARACTERS = 8_000

StepNumber = Annotated[int, Path(ge=1, le=MAX_LONG, description="Number of a step; the first is 1.")]
Partition = Annotated[int, Query(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Query(ge=0, le=MAX_LONG)]
FirstStep = Annotated[
    int | None,
    Query(
        alias="from",
        ge=1,
        le=MAX_LONG,
        description="First step. Default: so that the page ends with the last.",
    ),
]
LastStep = Annotated[int, Query(ge=1, le=MAX_LONG, description="Last step.")]
TopicName = Annotated[str, Query(min_length=1, max_length=249)]


class StepList(BaseModel):
    """Committed steps, oldest first."""

    as_of: AsOf
    first: int = Field(description="The oldest step that was not dropped from the log.")
    last: int = Field(description="The last committed step; 0 before the first.")
    steps: list[model_of(StepBoundary)]  # type: ignore[valid-type]
    void: list[int] = Field(
        description="Which of them a reset has made void: what they wrote is still there, and counts no more."
    )
    next_from: int | None = Field(
        description="Give it as `from` for the next page; null if this one ends with the last step."
    )


class StepAnswer(BaseModel):
    """One committed step."""

    as_of: AsOf
    step: model_of(StepBoundary)  # type: ignore[valid-type]
    void_since: VoidSince | None = Field(
        description="The reset that has made the step void; null if the step counts."
    )


class Stats(BaseModel):
    """Of the newest steps: at most 1,000, and only those that this server holds in memory."""

    as_of: AsOf
    steps: int
    first: int
    last: int
    span_ms: int = Field(
        description="From the beginning of the first one's transaction to the commit of the last one."
    )
    records_in: dict[str, int] = Field(description="By input.")
    records_out: dict[str, int] = Field(description="By output.")
    late_rows: dict[str, int] = Field(description="By query with a watermark: rows that it dropped.")
    reasons: dict[str, int] = Field(description="Why the steps were made.")
    median_ms: float = Field(description="From the opening of a step's transaction to its commit.")
    max_ms: float


class RecordCompletion(BaseModel):
    """Of one record, for one input that reads its topic."""

    topic: str
    partition: int
    offset: int
    input: str
    state: str = Field(
        description="committed; waiting; not read: the pipeline began after it and never will; skipped: at "
        "a user's request; aborted: the transaction of its producer was; no record: the offset "
        "is that of a marker that ends a transaction; gone: compacted away or deleted before a "
        "step read it; or bad record: its step left it out, as it could not be parsed."
    )
    step: int | None = Field(
        description="The step that has read it, or has gone past it; null if none has, or it was dropped "
        "from the log since."
    )
    note: str = Field(
        description="Why it can't be told whether a step has read a record that is said to be committed; "
        "'' if it has."
    )


class CompletionAnswer(BaseModel):
    """Whether records are in committed steps."""

    as_of: AsOf
    complete: bool
    records: list[RecordCompletion]


@router.get("/steps", response_model=StepList, responses=responses(404, 409, 500))
async def list_steps(
    plane: ThePlane,
    pipeline: ThePipeline,
    from_: FirstStep = None,
    to: LastStep = MAX_LONG,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = PAGE_SIZE,
) -> Any:
    """A page of committed steps: the newest, or those from a number on."""
    committed = pipeline.committed
    answer = {"as_of": as_of(plane, pipeline).model_dump(), "first": committed.first, "last": committed.step}
    found, next_from = await page_of(plane, pipeline, from_, to, limit)
    void = [one.step for one in found if pipeline.index.void_since(one.step) is not None]
    return answer_with({**answer, "void": void, "next_from": next_from}, "steps", plane.texts.list_of(found))


async def page_of(
    plane: Plane, pipeline: PipelineProjection, from_: int | None, to: int, limit: int
) -> tuple[list[StepBoundary], int | None]:
    """The boundaries of a page, and the first step of the next one: None if this page ends with the last
    step.

    from_: None for the page that ends with the last step.
    """
    committed = pipeline.committed
    end = min(to, committed.step)
    first = max(committed.first, from_ if from_ is not None else end - limit + 1)
    last = min(end, first + limit - 1)
    found = await plane.projections.boundaries(pipeline.pipeline, first, last) if first <= last else []
    boundaries = [one.record for one in found if isinstance(one.record, StepBoundary)]
    return boundaries, last + 1 if first <= last < end else None


@router.get("/steps/by-input", response_model=StepAnswer, responses=responses(404, 409, 500))
async def get_step_that_read(
    plane: ThePlane,
    pipeline: ThePipeline,
    input: Annotated[str, Query(min_length=1, max_length=63, description="Name of an input.")],
    partition: Partition,
    offset: Offset,
) -> Any:
    """The step that read an offset of an input."""
    lag = pipeline.lag_of(input)
    where = f"input {input!r}, partition {partition}, offset {offset}"
    found = next((part for part in lag.partitions if part.partition == partition), None)
    if found is None:
        raise NotFoundError(
            f"pipeline {pipeline.pipeline!r}, {where}: it has the partitions 0 to {len(lag.partitions) - 1}"
        )
    step = pipeline.index.reader_of(input, partition, offset)
    if step is None:
        why = f"no committed step has read it yet: they end at offset {found.committed}"
        if offset < found.start:
            why = f"the pipeline began at offset {found.start}"
        elif (skipper := pipeline.index.skipper_of(input, partition, offset)) is not None:
            why = f"no step has read it: step {skipper} went past it, at a user's request"
        elif offset < found.committed:
            why = (
                "the step that read it was dropped from the log, which begins with step "
                f"{pipeline.committed.first}"
            )
        raise NotFoundError(f"pipeline {pipeline.pipeline!r}, {where}: {why}")
    return await _step(plane, pipeline, step)


@router.get("/steps/by-output", response_model=StepAnswer, responses=responses(404, 409, 500))
async def get_step_that_wrote(
    plane: ThePlane, pipeline: ThePipeline, topic: TopicName, partition: Partition, offset: Offset
) -> Any:
    """The step that wrote an offset of an output topic."""
    step = pipeline.index.writer_of(topic, partition, offset)
    if step is None:
        raise NotFoundError(
            f"pipeline {pipeline.pipeline!r}: no committed step in the log (which begins with step "
            f"{pipeline.committed.first}) has written topic {topic!r}, partition {partition}, offset "
            f"{offset}: it may be a transaction's marker, of an aborted attempt, or not the pipeline's"
        )
    return await _step(plane, pipeline, step)


@router.get("/steps/{step}", response_model=StepAnswer, responses=responses(404, 409, 500))
async def get_step(plane: ThePlane, pipeline: ThePipeline, step: StepNumber) -> Any:
    """The whole boundary of a committed step."""
    return await _step(plane, pipeline, step)


async def _step(plane: Plane, pipeline: PipelineProjection, step: int) -> Response:
    committed = pipeline.committed
    found = []
    if committed.first <= step <= committed.step:
        found = await plane.projections.boundaries(pipeline.pipeline, step, step)
    for one in found:
        if isinstance(one.record, StepBoundary):
            void = pipeline.index.void_since(step)
            answer = {
                "as_of": as_of(plane, pipeline).model_dump(),
                "void_since": None if void is None else void.model_dump(),
            }
            return answer_with(answer, "step", plane.texts.of(one.record))
    why = (
        f"it has committed {committed.step}"
        if step > committed.step
        else f"its log begins with step {committed.first}"
    )
    raise NotFoundError(f"pipeline {pipeline.pipeline!r} has no step {step}: {why}")


@router.get("/stats", responses=responses(404, 409, 500))
async def get_stats(plane: ThePlane, pipeline: ThePipeline) -> Stats:
    """Figures of the newest steps."""
    boundaries = [one.record for one in pipeline.recent if isinstance(one.record, StepBoundary)]
    took = [one.committed_ms - one.opened_ms for one in boundaries]
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for one in boundaries:
        for dropped in one.late_rows:
            late[dropped.query] += dropped.rows
        for piece in one.inputs:
            read[piece.input] += piece.records
        for out in one.outputs:
            written[out.output] += out.records
    return Stats(
        as_of=as_of(plane, pipeline),
        steps=len(boundaries),
        first=boundaries[0].step if boundaries else 0,
        last=boundaries[-1].step if boundaries else 0,
        span_ms=boundaries[-1].committed_ms - boundaries[0].opened_ms if boundaries else 0,
        records_in=read,
        records_out=written,
        late_rows=late,
        reasons=Counter(one.reason.value for one in boundaries),
        median_ms=statistics.median(took) if took else 0,
        max_ms=max(took, default=0),
    )


@router.get("/completion", responses=responses(404, 409, 500))
async def get_completion(
    plane: ThePlane,
    pipeline: ThePipeline,
    token: Annotated[
        str | None,
        Query(max_length=MAX_TOKEN_CHARACTERS, description="What `kcontrol.completion_token` returns."),
    ] = None,
    topic: Annotated[
        str | None, Query(min_length=1, max_length=249, description="Of an input; instead of a token.")
    ] = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    offset: Annotated[int | None, Query(ge=0, le=MAX_LONG)] = None,
    wait_s: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="Wait for so long for what is not committed yet.")
    ] = 0,
) -> CompletionAnswer:
    """Whether input records are in committed steps: of a token, or of a topic, partition and offset."""
    records = _records(token, topic, partition, offset)
    completions(pipeline, records)
    if wait_s > 0:
        await plane.projections.until(
            lambda: is_complete(completions(pipeline, records)), min(wait_s, plane.longest_wait_s)
        )
    found = await _with_fates(plane, pipeline, completions(pipeline, records))
    return CompletionAnswer(
        as_of=as_of(plane, pipeline),
        complete=is_complete(found),
        records=[
            RecordCompletion(
                topic=each.record.topic,
                partition=each.record.partition,
                offset=each.record.offset,
                input=each.input,
                state=each.state.value,
                step=each.step,
                note=each.note,
            )
            for each in found
        ],
    )


async def _with_fates(
    plane: Plane, pipeline: PipelineProjection, found: list[Completion]
) -> list[Completion]:
    if plane.look is None:
        return found
    known: dict[int, StepBoundary] = {}

    async def boundary_of(one: Completion) -> StepBoundary | None:
        step = one.step
        if step is not None and step not in known:
            boundaries = await plane.projections.boundaries(pipeline.pipeline, step, step)
            known.update(
                {
                    each.record.step: each.record
                    for each in boundaries
                    if isinstance(each.record, StepBoundary)
                }
            )
        return None if step is None else known.get(step)

    return await fates(pipeline.spec(), found, boundary_of, plane.look, max_offsets=plane.max_look_offsets)


def _records(
    token: str | None, topic: str | None, partition: int | None, offset: int | None
) -> tuple[InputRecord, ...]:
    place = (topic, partition, offset)
    if token is not None and place == (None, None, None):
        return parse_token(token)
    if token is None and topic is not None and partition is not None and offset is not None:
        return (InputRecord(topic, partition, offset),)
    raise ConfigurationError("give either token, or all of topic, partition and offset")
