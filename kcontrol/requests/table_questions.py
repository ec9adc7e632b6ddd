"""A question in SQL about a pipeline's tables, and its answer: what whoever asks and whoever answers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kcontrol.errors import ConfigurationError, KcontrolError, RetriableError

MAX_SQL_CHARACTERS = 50_000


class StatementRefusedError(ConfigurationError):
    """The statement is none that may be asked, or Spark can't make sense of it."""


class AnswerTooLateError(KcontrolError):
    """The answer was not there in time; what was being computed for it is cancelled."""

    exit_code = 3


class QueryServerError(RetriableError):
    """There is no query server, it can't be reached, or it has too many questions already."""


@dataclass(frozen=True, slots=True)
class TableLimits:
    """What questions may take. Each is a number; none is infinite.

    rows: of an answer; a question may ask for fewer. answer_bytes: of an answer, as JSON.
    timeout_s: for an answer whole, from the log to the last row; a question may ask for less.
    read_bytes: of the records of one output that are read for its table.
    waiting: questions that wait for the one that is being answered; others are refused at once.
    kept: steps that are kept ready for the next question.
    """

    rows: int = 1_000
    answer_bytes: int = 16 << 20
    timeout_s: float = 60.0
    read_bytes: int = 1 << 30
    waiting: int = 8
    kept: int = 2

    def __post_init__(self) -> None:
        """Raises ConfigurationError: a limit is not positive."""
        for each in fields(self):
            if getattr(self, each.name) <= 0:
                raise ConfigurationError(
                    f"queries: {each.name} is {getattr(self, each.name)}; it must be more than 0"
                )


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """sql: one statement that reads. step: as of which; None: the newest that can be asked. rows, timeout_s: None or
    more than the limits allow: what these allow."""

    pipeline: str
    sql: str
    step: int | None = None
    rows: int | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """type: as Spark writes it in SQL."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """rows: each a list of values as JSON has them, by column: times in ISO 8601 and UTC, decimal numbers as texts,
    bytes as text where they are UTF-8 and else as `base64:...`. more: there are rows that are left out.
    notes: what the reader has to know of what was read."""

    pipeline: str
    step: int
    step_ms: int
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Any]]
    more: bool
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class KnownTable:
    """what: of which part of the pipeline, in words."""

    name: str
    what: str
    columns: Sequence[TableColumn]


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The tables of a pipeline as of a step. steps: those that can be asked, as a text."""

    pipeline: str
    step: int
    step_ms: int
    steps: str
    tables: Sequence[KnownTable]


def answer_of(told: Mapping[str, Any]) -> TableAnswer:
    """From its JSON. Raises QueryServerError."""
    try:
        columns = [TableColumn(each["name"], each["type"]) for each in told["columns"]]
        return TableAnswer(
            told["pipeline"],
            told["step"],
            told["step_ms"],
            columns,
            told["rows"],
            told["more"],
            told["notes"],
        )
    except (KeyError, TypeError) as error:
        raise QueryServerError(
            f"the query server has answered with something else than a table ({error!r})"
        ) from error


async def nobody_answers(_question: TableQuestion) -> TableAnswer:
    """Of a server that was told of no query server. Raises QueryServerError."""
    raise QueryServerError(
        "this server knows of no query server: start `kcontrol query-server`, and this one with --query-server URL"
    )
