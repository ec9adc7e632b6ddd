"""`POST /v1/pipelines/{pipeline}/ingress/{input}`: rows for an input, all or none, each request once (decision 108).

The answer comes when the rows are committed in the input's topic, so they are of a step some time, whoever dies; with `wait_s`
it comes when they are. The id of a request is its Idempotency-Key: with the same one it may be sent again, to any server, until
there is an answer.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from email.message import Message
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from kcontrol.adapters.http.limits import MAX_WAIT_S
from kcontrol.adapters.http.plane import Plane, ThePipeline, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.push_desk import PushDesk
from kcontrol.core.model import InputSpec
from kcontrol.errors import KcontrolError, NotFoundError
from kcontrol.requests.push.bodies import FORMATS, MEDIA_TYPES, rows_of
from kcontrol.requests.push.log import Push, Pushed, PushLog, check_request_id
from kcontrol.requests.push.observer import Refusal
from kcontrol.requests.push.rules import rules_for
from kcontrol.requests.record import NotNowError
from kcontrol.views.completion import (
    Completion,
    CompletionState,
    InputRecord,
    completions,
    is_complete,
    parse_token,
)
from kcontrol.views.pipeline_projection import PipelineProjection

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["inputs"])

_PATH = re.compile(r"/v1/pipelines/([^/]+)/ingress/([^/]+)")
_AS_IT_IS = "identity"
_ROWS = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": dict.fromkeys(FORMATS, _ROWS)}}


class PushedRows(BaseModel):
    """The rows are committed in the input's topic."""

    pipeline: str
    input: str
    request_id: str = Field(description="The Idempotency-Key, or one that was made up.")
    records: int
    token: str = Field(
        description="Completion token of all rows: GET .../completion tells when they are in steps."
    )
    replayed: bool = Field(description="Whether they were committed before, by this request.")
    remembered_until_ms: int = Field(description="Until then the same request pushes nothing again.")
    complete: bool = Field(description="Whether all rows are in committed steps.")
    step: int | None = Field(
        description="The last step that holds some of them; null while one is in none, or not known any more."
    )


@router.post("/ingress/{input}", responses=responses(404, 409, 415, 429, 500), openapi_extra=_BODY)
async def push_rows(
    request: Request,
    plane: ThePlane,
    pipeline: ThePipeline,
    input: Annotated[str, Path(min_length=1, max_length=63, description="Name of an input.")],
    key: Annotated[
        str,
        Query(
            max_length=255,
            description="The field of which the rows' keys are made. Default: what the input is partitioned by, else none.",
        ),
    ] = "",
    wait_s: Annotated[
        float,
        Query(ge=0, le=MAX_WAIT_S, description="Wait for so long until all rows are in committed steps."),
    ] = 0,
    idempotency_key: Annotated[
        str | None,
        Header(description="Id of the request; the same one again pushes nothing. Default: one is made up."),
    ] = None,
) -> PushedRows:
    """Push rows to an input: NDJSON, a JSON array, CSV with a line of names, an Avro file or Parquet. All of them or none are
    written."""
    desk, item = plane.pushes, pipeline.input(input)
    if desk.log is None:
        raise NotNowError("this server takes no rows: start it with --max-push-bytes")
    with desk.watching(pipeline.pipeline, item.name):
        pushed = await _push(desk, desk.log, pipeline, item, request, key, idempotency_key)
    records = parse_token(pushed.request.token)

    def found() -> list[Completion]:
        return _fates(pipeline, records, item.name)

    if wait_s > 0:
        await plane.projections.until(lambda: is_complete(found()), min(wait_s, plane.longest_wait_s))
    steps, complete = [each.step for each in found()], is_complete(found())
    return PushedRows(
        pipeline=pipeline.pipeline,
        input=item.name,
        request_id=pushed.request.request_id,
        records=pushed.request.records,
        token=pushed.request.token,
        replayed=pushed.replayed,
        remembered_until_ms=pushed.request.until_ms,
        complete=complete,
        step=max(step for step in steps if step is not None) if complete and None not in steps else None,
    )


def _fates(pipeline: PipelineProjection, records: Sequence[InputRecord], input_name: str) -> list[Completion]:
    """Of rows that are committed, so that nothing of it is an error of the request: they wait, too, where this server has not
    heard yet of a partition that they lie in, or has heard meanwhile that the pipeline reads another topic, or is gone."""
    try:
        return [each for each in completions(pipeline, records) if each.input == input_name]
    except NotFoundError:
        return [Completion(each, input_name, CompletionState.WAITING, None) for each in records]


async def _push(
    desk: PushDesk,
    log: PushLog,
    pipeline: PipelineProjection,
    item: InputSpec,
    request: Request,
    key: str,
    idempotency_key: str | None,
) -> Pushed:
    media_type = _media_type(request.headers)
    rules = rules_for(pipeline.pipeline, item, key, desk.limits)
    request_id = str(uuid.uuid4()) if idempotency_key is None else check_request_id(idempotency_key)
    rows = await asyncio.to_thread(rows_of, await request.body(), media_type, rules)
    with desk.room(pipeline, item, len(rows)) as check:
        pushed = await log.push(Push(pipeline.pipeline, item, request_id, rows), check)
        desk.saw(pushed, rows)
    return pushed


def _media_type(headers: Headers) -> str:
    """One of MEDIA_TYPES. Raises HTTPException for a body that is said to be anything else: what is passed over of that would
    make other rows of it, as of texts in another encoding."""
    said = Message()
    said["content-type"] = content_type = headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in MEDIA_TYPES:
        raise HTTPException(
            415, f"The body is said to be {media_type or 'nothing'}; it must be one of {', '.join(FORMATS)}."
        )
    charset = said.get_content_charset("utf-8")
    if not _is_utf_8(charset):
        raise HTTPException(415, f"The body is said to be in {charset[:40]!r}; rows must be in UTF-8.")
    encoding = headers.get("content-encoding", _AS_IT_IS).strip().lower()
    if encoding not in ("", _AS_IT_IS):
        raise HTTPException(
            415,
            f"The body is said to be encoded by {encoding[:40]!r}, which is not taken: send it as it is; Avro and Parquet are "
            "compressed within.",
        )
    return media_type


def _is_utf_8(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name in ("utf-8", "ascii")
    except (LookupError, ValueError):
        return False


def note_oversized(plane: Plane, path: str) -> None:
    """A body for this path was too large to be read."""
    found, desk = _PATH.fullmatch(path), plane.pushes
    if found is None or desk.log is None:
        return
    with suppress(KcontrolError):
        pipeline = plane.projections.get(found[1])
        desk.observer.refused(pipeline.pipeline, pipeline.input(found[2]).name, Refusal.SIZE)
