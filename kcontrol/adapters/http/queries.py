"""`POST /v1/pipelines/{pipeline}/query`: a question in SQL, of a server that hands it on, and of the one that answers
it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from kcontrol.adapters.http.plane import PipelineName
from kcontrol.adapters.http.problems import Problem, problem, responses
from kcontrol.errors import KcontrolError
from kcontrol.requests.table_questions import MAX_SQL_CHARACTERS, TableAnswer, TableQuestion

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["queries"])

QUERY_PATH = "/v1/pipelines/{pipeline}/query"

Ask = Callable[[TableQuestion], Awaitable[TableAnswer]]


class AskedElsewhereError(KcontrolError):
    """The server that was asked in turn has answered with a problem, which is the answer here too."""

    def __init__(self, told: Problem) -> None:
        super().__init__(told.detail)
        self.told = told


class Answering(Protocol):
    """What an application has whose server answers questions, or hands them on."""

    @property
    def ask(self) -> Ask: ...


@dataclass(frozen=True)
class Answers:
    """Of an application that does nothing else."""

    ask: Ask


class TableQuestionBody(BaseModel):
    """A question about a pipeline's state and outputs."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sql: str = Field(
        description=f"One statement that reads, in Spark's SQL, of at most {MAX_SQL_CHARACTERS:,} characters."
    )
    step: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="As of this step, of which there must be a checkpoint if the pipeline keeps state; null: the newest.",
    )
    limit: int | None = Field(default=None, ge=1, le=10_000_000, description="Rows of the answer, at most.")
    timeout_s: float | None = Field(
        default=None, gt=0, le=3_600, description="Seconds after which the question is cancelled."
    )


class ColumnOfAnswer(BaseModel):
    """A column of an answer."""

    name: str
    type: str = Field(description="As Spark writes it in SQL.")


class TableAnswerBody(BaseModel):
    """The answer, as of one step."""

    pipeline: str
    step: int
    step_ms: int = Field(description="The time of the step, milliseconds since 1970.")
    columns: list[ColumnOfAnswer]
    rows: list[list[Any]] = Field(
        description="Values by column: times in ISO 8601, decimal numbers as strings, bytes as strings, which begin with "
        "`base64:` where they are not UTF-8."
    )
    more: bool = Field(
        description="Whether there are rows that are left out, by `limit` or the server's limits."
    )
    notes: list[str] = Field(description="What has to be known of what was read.")


async def ask_of(request: Request) -> Ask:
    """Of the application that answers. Async, because FastAPI calls a plain function in a thread."""
    answering: Answering = request.app.state.plane
    return answering.ask


@router.post("/query", response_model=TableAnswerBody, responses=responses(404, 409, 500))
async def query(
    request: Request,
    ask: Annotated[Ask, Depends(ask_of)],
    pipeline: PipelineName,
    question: TableQuestionBody,
) -> Any:
    """Ask about the state of all nodes and the outputs, as of one step, in SQL: what `kcontrol query` prints. Answered
    by a query server, if there is one; nothing of the pipeline is touched."""
    asked = TableQuestion(pipeline, question.sql, question.step, question.limit, question.timeout_s)
    try:
        return await ask(asked)
    except AskedElsewhereError as error:
        return _handed_on(error.told, request)


def add_queries(api: FastAPI, ask: Ask) -> None:
    """For an application that has nothing else."""
    api.state.plane = Answers(ask)
    api.include_router(router)


def _handed_on(told: Problem, request: Request) -> Response:
    name = told.type.rpartition(":")[2]
    return problem(told.status, name, told.detail, request.url.path, told.remedy, told.faults)
