"""`/v1/pipelines/{pipeline}/outputs/{output}/stream`: committed rows as server-sent events, step by step.

Rows come as they lie in Kafka, and behind those of a step an event with its number, and the id of the log that it is of, as
`id`. That of the step behind which a stream begins comes before all events. A client that was cut off asks again with the last
id that it has, as every EventSource does by itself, and gets what follows that step: it drops the rows for which no step has
come. Steps that a reset has made void after they were sent are told by an event of their own (decision 107).

Taking a piece blocks, so it is done in a thread of the stream's own, for `BEAT_S` at most at a time.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from kcontrol.adapters.http.guard import STREAM
from kcontrol.adapters.http.output_pieces import (
    CommittedRow,
    Piece,
    Rows,
    RunningStream,
    StepDone,
    Voided,
)
from kcontrol.adapters.http.plane import MAX_LONG, Plane, ThePipeline, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.errors import ConfigurationError, KcontrolError, NotFoundError
from kcontrol.requests.record import NotNowError

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["steps"])

RETRY_MS = 1_000
"""What an EventSource is told to wait before it asks again."""
MEDIA_TYPE = "text/event-stream"
_LOG_ID = r"[A-Za-z0-9_-]{1,64}"
_EVENT_ID = re.compile(rf"([0-9]{{1,19}})(?:@({_LOG_ID}))?")


@dataclass(frozen=True, slots=True)
class _Had:
    """What a client has. step: the last one; None: the newest there is counts as that. log_id: of the log that it is of; '': it
    does not say."""

    step: int | None
    log_id: str = ""


class _Events(StreamingResponse):
    """Ends its stream also where its client has gone before the first event."""

    def __init__(self, stream: RunningStream, events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=MEDIA_TYPE, headers=headers)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stream.end()


@router.get(
    "/outputs/{output}/stream",
    response_class=StreamingResponse,
    responses={
        200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "Events."},
        **responses(404, 409, 500),
    },
)
async def stream_output(
    plane: ThePlane,
    pipeline: ThePipeline,
    output: Annotated[str, Path(min_length=1, max_length=80, description="Name of an output.")],
    after: Annotated[
        int | None,
        Query(
            ge=0,
            le=MAX_LONG,
            description="The last step that the client has; 0: none. Default: the newest there is.",
        ),
    ] = None,
    log: Annotated[
        str | None,
        Query(
            pattern=f"^{_LOG_ID}$",
            description="The log that `after` is of, as the ids of events have it behind their @. Another one is refused.",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(
            description="The id of the last event that the client has, in place of both; an EventSource sends it by itself "
            "when it asks again."
        ),
    ] = None,
) -> StreamingResponse:
    """Committed rows of an output, step by step, as server-sent events: `row`, `step`, `voided`, `problem`."""
    streams = plane.streams
    if streams is None or streams.most == 0:
        raise NotNowError("this server streams no outputs: start it with --max-streams")
    had = _had(last_event_id) if last_event_id else _Had(after, log or "")
    if output not in {each.name for each in pipeline.spec().outputs}:
        known = ", ".join(each.name for each in pipeline.spec().outputs)
        raise NotFoundError(f"pipeline {pipeline.pipeline!r} has no output {output!r}; it has {known}")
    begin = pipeline.committed.step if had.step is None else had.step
    await plane.projections.until(lambda: pipeline.committed.step >= begin, plane.longest_wait_s)
    if begin > pipeline.committed.step:
        raise NotNowError(
            f"pipeline {pipeline.pipeline!r} has committed {pipeline.committed.step} and was asked for what follows "
            f"step {begin}: it is another one of that name, or this server is behind"
        )
    if streams.running >= streams.most:
        streams.observer.refused(pipeline.pipeline, output)
        raise HTTPException(503, f"{streams.most} outputs are being streamed already.")
    stream = streams.begin(pipeline.pipeline, output, begin, had.log_id)
    try:
        log_id = await stream.begin()
    except BaseException:
        await stream.end()
        raise
    value_format = next(each.value_format for each in pipeline.spec().outputs if each.name == output)
    return _Events(stream, _events(stream, value_format, log_id, begin))


def note_crowded(plane: Plane, path: str) -> None:
    """A stream of this path was one too many."""
    found = STREAM.fullmatch(path)
    if found is None or plane.streams is None:
        return
    with suppress(KcontrolError):
        pipeline = plane.projections.get(found[1])
        if found[2] in {each.name for each in pipeline.spec().outputs}:
            plane.streams.observer.refused(pipeline.pipeline, found[2])


def _had(given: str) -> _Had:
    """Ids of before had no log."""
    found = _EVENT_ID.fullmatch(given)
    if found is None or int(found[1]) > MAX_LONG:
        raise ConfigurationError(
            f"Last-Event-ID: {given[:40]!r} is not the number of a step, with @ and the id of its log or without"
        )
    return _Had(int(found[1]), found[2] or "")


async def _events(stream: RunningStream, value_format: str, log_id: str, begin: int) -> AsyncIterator[str]:
    """begin: the step that counts as had, whether the client has said so or not. Its id goes before all events, or a client
    that is cut off before the first one would ask again without, and begin behind a newer step."""
    ends_at, between_steps = time.monotonic() + stream.longest_s, True
    try:
        yield f"retry: {RETRY_MS}\nid: {begin}@{log_id}\n\n"
        while not (between_steps and time.monotonic() >= ends_at):
            try:
                piece = await stream.take()
            except KcontrolError as error:
                yield _event("problem", {"detail": str(error)})
                return
            between_steps = not isinstance(piece, Rows)
            yield ": nothing yet\n\n" if piece is None else _text(piece, value_format, log_id)
    finally:
        await stream.end()


def _text(piece: Piece, value_format: str, log_id: str) -> str:
    match piece:
        case Rows():
            return "".join(_row(piece.step, each, value_format) for each in piece.rows)
        case StepDone():
            told = {
                "step": piece.step,
                "rows": piece.rows,
                "follows": piece.follows,
                "committed_ms": piece.committed_ms,
            }
            return _event("step", told, f"{piece.step}@{log_id}")
        case Voided():
            void = {"to_step": piece.to_step, "reset": piece.reset, "why": piece.why}
            return _event("voided", void, f"{piece.reset}@{log_id}")


def _event(name: str, data: dict[str, Any], its_id: str = "") -> str:
    number = f"id: {its_id}\n" if its_id else ""
    return f"event: {name}\n{number}data: {json.dumps(data, separators=(',', ':'))}\n\n"


def _row(step: int, row: CommittedRow, value_format: str) -> str:
    place = (
        f'"step":{step},"partition":{row.partition},"offset":{row.offset},"timestamp_ms":{row.timestamp_ms}'
    )
    key = "null" if row.key is None else _bytes_text(row.key)
    return f'event: row\ndata: {{{place},"key":{key},"value":{_value_text(row.value, value_format)}}}\n\n'


def _value_text(value: bytes | None, value_format: str) -> str:
    """JSON as it is, with every digit; what is none, as any bytes."""
    if value is None:
        return "null"
    if value_format == "json":
        try:
            text = value.decode()
            json.loads(text, parse_constant=_no_json)
        except (ValueError, RecursionError):
            return _bytes_text(value)
        # Between its tokens JSON may have line ends, which would end a line of the event; within texts it has none.
        return text.replace("\r", " ").replace("\n", " ")
    return _bytes_text(value)


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _bytes_text(value: bytes) -> str:
    """A text, if it is one in UTF-8, or an object that says that it is base64."""
    try:
        return json.dumps(value.decode())
    except UnicodeDecodeError:
        return json.dumps({"base64": base64.b64encode(value).decode()})
