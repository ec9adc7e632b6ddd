"""What goes over the side channel: a dataclass for each question that a planner or a
task asks, and one for its answer.

On the wire they are JSON objects with the names of the fields, and the name of a question's class as `ask`.
This module is imported by planner processes, which have ten seconds to start: it imports nothing large.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, get_args

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.core.model import ExchangeSlice, FailureKind, InputSchema, OutputSlice
from kcontrol.wire.shapes import from_plain, to_plain

A = TypeVar("A")

KIND = "ask"
"""The member of a question's JSON object that names its class."""


class Placement(StrEnum):
    """How a query's rows find their writer task."""

    SINGLE = "single"
    """One writer, without a shuffle."""
    DIRECT = "direct"
    """Each source task writes its rows itself, to output partitions that no other source task's rows belong
    to."""
    EXCHANGE = "exchange"
    """A shuffle brings the rows of an output partition to the one task that writes it."""
    TURNS = "turns"
    """Each task writes its rows itself, to any partition, when its turn has come."""
    SENT = "sent"
    """Each task sends its rows to the nodes that they are for; no output is written."""


class Question(Generic[A]):
    """What is asked; the answer is of the class in brackets."""

    __slots__ = ()


@cache
def answer_of(question: Any) -> Any:
    """The class of the answers to a class of questions."""
    (answer,) = get_args(question.__orig_bases__[0])
    return answer


# --- answers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heard:
    """It was heard."""


@dataclass(frozen=True, slots=True)
class Released:
    """The step that is to be run; None: none yet, ask again."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets [from_, to) of a partition."""

    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class StepSplits:
    """What each source task of an input reads, in its order.

    placed_among: how many partitions the topic has, if records must lie where `partitioned_by` says; else 0.
    digest_version: see `InputSlice`.
    """

    serial: int
    topic: str
    topic_id: str
    tasks: tuple[tuple[Split, ...], ...]
    placed_among: int
    digest_version: int


@dataclass(frozen=True, slots=True)
class TaskSplits:
    """What one source task reads, and which columns of it are used; None for all. For the others see
    `StepSplits`."""

    topic: str
    topic_id: str
    splits: tuple[Split, ...]
    placed_among: int
    digest_version: int
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Readers:
    """How many source tasks an exchange has in the step."""

    serial: int
    tasks: int


@dataclass(frozen=True, slots=True)
class RunToRead:
    """Offsets [from, to) of a slot that hold rows for one node; `records` is how many rows."""

    partition: int
    from_: int
    to: int
    records: int


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """What one source task reads of an exchange, for which node it is, and which producer has written it.

    committed: the step is, as in a replay; else it is read before that. rehearsed: the directory, on this machine, where the
    rows lie instead; '': they lie in Kafka.
    """

    topic: str
    topic_id: str
    runs: tuple[RunToRead, ...]
    step: int
    node: int
    committed: bool
    producer_id: int
    producer_epoch: int
    rehearsed: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """The cluster's, as JSON, secrets included."""

    json: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Those that the query can see of the input; None for all."""

    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Job:
    """A WriteJob as JSON; None: there is nothing to do."""

    json: str | None


@dataclass(frozen=True, slots=True)
class OwnPartitions:
    """What a writer may write of an output."""

    output: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to write, once, in the step's transaction."""

    own: tuple[OwnPartitions, ...]
    step: int
    now_ms: int
    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Dealt:
    """Turns that a writer has from now on; none yet: ask again."""

    turns: tuple[WriteTurn, ...]


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """Those of the ids that the step knows, and the schemas of them that the task does not hold."""

    known: tuple[int, ...]
    told: tuple[InputSchema, ...]


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """What values of an output begin with."""

    schema_id: int


# --- questions of planners ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AwaitStep(Question[Released]):
    """Which step comes after `start`, the last that the query has recorded? Answered when
    it is known, or after a while."""

    start: int


@dataclass(frozen=True, slots=True)
class AskSplits(Question[StepSplits]):
    """How is a step cut into source tasks?"""

    input: str
    step: int


@dataclass(frozen=True, slots=True)
class AskReaders(Question[Readers]):
    """How many source tasks has an exchange in a step?"""

    exchange: str
    step: int


# --- questions of tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskSettings(Question[Settings]):
    """Where is Kafka, and how is it spoken to?"""


@dataclass(frozen=True, slots=True)
class Announce(Question[Columns]):
    """A source task is about to read these partitions."""

    serial: int
    query: str
    input: str
    partitions: tuple[int, ...]
    task_attempt: int
    attempt_number: int


@dataclass(frozen=True, slots=True)
class BeginTask(Question[TaskSplits]):
    """A source task that was planned for any step is about to read its part of this attempt's.

    task: which of the input's it is; beyond those that the step has there is nothing to read.
    """

    serial: int
    query: str
    input: str
    task: int
    task_attempt: int
    attempt_number: int


@dataclass(frozen=True, slots=True)
class BeginReading(Question[TaskRuns]):
    """A source task is about to read its part of an exchange. task: which of the exchange's it is."""

    serial: int
    query: str
    exchange: str
    task: int
    task_attempt: int
    attempt_number: int


@dataclass(frozen=True, slots=True)
class ReportTaken(Question[Heard]):
    """A source task has read its part of an exchange to the end."""

    serial: int
    query: str
    exchange: str
    task: int
    records: int


@dataclass(frozen=True, slots=True)
class AskJob(Question[Job]):
    """A task of a job that was begun ahead, for whatever step comes next: which attempt does it work for?
    Answered when that is known, or when it is to wait no longer.

    number: of the job, among those that the query began ahead.
    """

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """A split that was read to its end, and what was found in it."""

    partition: int
    from_: int
    to: int
    records: int
    digest: str


@dataclass(frozen=True, slots=True)
class ReportReads(Question[Heard]):
    """A source task has read all that it was to read."""

    serial: int
    query: str
    input: str
    reads: tuple[ReadSplit, ...]


@dataclass(frozen=True, slots=True)
class AskGrant(Question[Grant]):
    """May this task write? tasks: how many writers there are; 1 for a single one.
    modulus: partitions of the outputs."""

    serial: int
    query: str
    writer: int
    task_attempt: int
    attempt_number: int
    placement: Placement
    tasks: int
    modulus: int


@dataclass(frozen=True, slots=True)
class TakeTurns(Question[Dealt]):
    """A writer that has leave gives turns back, and wants others. Answered when it has one, or after a while.

    back: as they are now. wanted: partitions of the output, none if it only gives back.
    """

    serial: int
    query: str
    writer: int
    task_attempt: int
    output: str
    back: tuple[WriteTurn, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReportWritten(Question[Heard]):
    """A writer that has leave has written all that it was given."""

    serial: int
    query: str
    writer: int
    task_attempt: int
    slices: tuple[OutputSlice, ...]


@dataclass(frozen=True, slots=True)
class ReportSent(Question[Heard]):
    """A writer that has leave has sent all that it was given."""

    serial: int
    query: str
    writer: int
    task_attempt: int
    slices: tuple[ExchangeSlice, ...]


@dataclass(frozen=True, slots=True)
class ReportFailure(Question[Heard]):
    """A task has failed with one of kcontrol's own errors."""

    serial: int
    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True)
class AskSchemas(Question[KnownSchemas]):
    """What do these ids in values of an input stand for, in the attempt under way? held: those that need not be told."""

    input: str
    ids: tuple[int, ...]
    held: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskOutputSchema(Question[WrittenSchema]):
    """Which id has the schema of an output?"""

    output: str
    text: str


QUESTIONS: tuple[type[Question[Any]], ...] = (
    *(AwaitStep, AskSplits, AskReaders, AskSettings),
    *(AskJob, Announce, BeginTask, ReportReads, AskGrant, TakeTurns, ReportWritten, ReportFailure),
    *(BeginReading, ReportTaken, ReportSent, AskSchemas, AskOutputSchema),
)
"""All that a driver answers."""


# --- on the wire --------------------------------------------------------------------------------------------


def question_to_plain(question: Question[Any]) -> dict[str, Any]:
    """What goes over the wire as JSON."""
    cls: Any = type(question)
    plain: dict[str, Any] = to_plain(cls)(question)
    plain[KIND] = cls.__name__
    return plain


def question_from_plain(plain: Any, known: tuple[type[Question[Any]], ...] = QUESTIONS) -> Question[Any]:
    """The question that was asked. Raises ValueError for what is none of these."""
    kind = plain.pop(KIND, None) if isinstance(plain, dict) else None
    cls: Any = next((each for each in known if each.__name__ == kind), None)
    if cls is None:
        raise ValueError(f"the side channel knows no question {kind!r}")
    try:
        question: Question[Any] = from_plain(cls)(plain)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the side channel's {kind} lacks a field, or has one of another type: {error!r}"
        ) from error
    return question
