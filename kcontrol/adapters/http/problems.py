"""The one shape of every error: RFC 9457 problem details, with what went wrong, where, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from kcontrol.adapters.http.plane import NotReachedError
from kcontrol.errors import (
    CheckpointError,
    ClusterError,
    ConfigurationError,
    DamagedRecordError,
    HaltedError,
    InputGoneError,
    KcontrolError,
    NotFoundError,
    RetriableError,
    SpecChangedError,
)
from kcontrol.requests.push.log import OtherRowsError, TooMuchError
from kcontrol.requests.record import NotNowError
from kcontrol.requests.table_questions import AnswerTooLateError, QueryServerError, StatementRefusedError

_log = logging.getLogger("kcontrol.http")

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    where: str
    what: str


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:kcontrol:problem:NAME; the same for every error of one kind.")
    title: str
    status: int
    detail: str = Field(description="What went wrong.")
    instance: str = Field(description="Where: the path of the request.")
    remedy: str = Field(description="What to do.")
    faults: list[Fault] = Field(default=[], description="What is wrong with the request, one by one.")


class ProblemResponse(JSONResponse):
    """A problem as a response."""

    media_type = MEDIA_TYPE


_KINDS: Mapping[type[KcontrolError], tuple[str, HTTPStatus, str]] = {
    NotFoundError: (
        "not-found",
        HTTPStatus.NOT_FOUND,
        "See GET /v1/pipelines and the pipeline's own pages for what there is.",
    ),
    NotReachedError: (
        "not-reached",
        HTTPStatus.CONFLICT,
        "Give an offset that a write has answered with, and ask again.",
    ),
    NotNowError: (
        "not-now",
        HTTPStatus.CONFLICT,
        "Bring the pipeline into a state that allows it, then ask again.",
    ),
    HaltedError: ("halted", HTTPStatus.CONFLICT, "Put right what the detail names, then POST .../resume."),
    InputGoneError: ("input-gone", HTTPStatus.CONFLICT, "Submit the pipeline under a new name."),
    SpecChangedError: (
        "spec-changed",
        HTTPStatus.CONFLICT,
        "Start a node with the new file, or undo the change.",
    ),
    StatementRefusedError: (
        "statement-refused",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Ask with one statement that reads the pipeline's tables; SHOW TABLES lists them.",
    ),
    AnswerTooLateError: (
        "too-late",
        HTTPStatus.GATEWAY_TIMEOUT,
        "Ask for less, or with a larger `timeout_s`, as far as the servers' limits allow.",
    ),
    QueryServerError: (
        "no-query-server",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "See to it that `kcontrol query-server` runs and that this server is told of it, then ask again.",
    ),
    CheckpointError: (
        "checkpoint",
        HTTPStatus.CONFLICT,
        "Have checkpoints saved where the query server can read them, or ask as of another step.",
    ),
    ConfigurationError: ("wrong-request", HTTPStatus.UNPROCESSABLE_ENTITY, "Correct what the detail names."),
    OtherRowsError: ("other-rows", HTTPStatus.CONFLICT, "Send other rows with another Idempotency-Key."),
    TooMuchError: (
        "too-much",
        HTTPStatus.TOO_MANY_REQUESTS,
        "Send the same request again after as many seconds as Retry-After says.",
    ),
    RetriableError: (
        "not-yet",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Try again; GET /health/ready says what is waited for.",
    ),
    ClusterError: (
        "kafka",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "See to Kafka, its topics and this server's rights to them.",
    ),
    DamagedRecordError: (
        "damaged",
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The log of steps was changed from outside: restore it.",
    ),
    KcontrolError: ("error", HTTPStatus.INTERNAL_SERVER_ERROR, "See the server's log."),
}
_STATUS_REMEDIES = {
    400: "Send a body of JSON, in UTF-8, where one is wanted, and none elsewhere.",
    401: "Send the header `Authorization: Bearer TOKEN` with the server's token.",
    403: "Send the request from a page of this server, or from no page at all.",
    404: "See /v1/openapi.json for the paths that there are.",
    405: "See /v1/openapi.json for the methods that there are.",
    413: "Send a smaller body.",
    415: "Send the header Content-Type with what the body is.",
    421: "Ask for the server by the address that it listens on.",
    503: "Try again in a second.",
    504: "Try again, or ask for less.",
}


def problem(
    status: int,
    name: str,
    detail: str,
    path: str,
    remedy: str = "",
    faults: list[Fault] | None = None,
    retry_after_s: int = RETRY_AFTER_S,
) -> ProblemResponse:
    """A problem of that name, as a response; with Retry-After where trying again may help."""
    body = Problem(
        type=f"urn:kcontrol:problem:{name}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=path,
        remedy=remedy or _STATUS_REMEDIES.get(status, "Correct the request."),
        faults=faults or [],
    )
    waits = status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
    headers = {"Retry-After": str(retry_after_s)} if waits else {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="kcontrol"'
    return ProblemResponse(body.model_dump(), status, headers)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of an operation: problems with these statuses, and those that any operation may
    have."""
    return {
        status: {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": HTTPStatus(status).phrase}
        for status in sorted({*statuses, 400, 401, 403, 413, 422, 503, 504})
    }


def add_handlers(app: FastAPI) -> None:
    """Make problems of all errors."""

    async def known(request: Request, error: Exception) -> ProblemResponse:
        name, status, remedy = next(_KINDS[kind] for kind in type(error).__mro__ if kind in _KINDS)
        retry_after_s = error.retry_after_s if isinstance(error, TooMuchError) else RETRY_AFTER_S
        return problem(status, name, str(error), request.url.path, remedy, retry_after_s=retry_after_s)

    async def http(request: Request, error: Exception) -> ProblemResponse:
        status, detail = (
            (error.status_code, str(error.detail)) if isinstance(error, HTTPException) else (500, "")
        )
        return problem(status, HTTPStatus(status).phrase.lower().replace(" ", "-"), detail, request.url.path)

    async def invalid(request: Request, error: Exception) -> ProblemResponse:
        errors = error.errors() if isinstance(error, RequestValidationError) else ()
        faults = [Fault(where=".".join(map(str, each["loc"])), what=str(each["msg"])) for each in errors]
        what = "; ".join(f"{fault.where}: {fault.what}" for fault in faults)
        return problem(422, "wrong-request", what, request.url.path, "Correct what the faults name.", faults)

    async def unknown(request: Request, error: Exception) -> ProblemResponse:
        _log.error("%s %s: %r", request.method, request.url.path, error, exc_info=error)
        remedy = "This is a bug in kcontrol: the server's log has the traceback; report it."
        return problem(500, "internal", f"{type(error).__name__}", request.url.path, remedy)

    app.add_exception_handler(KcontrolError, known)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unknown)
