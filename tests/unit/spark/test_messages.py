"""Every message of the side channel comes out of the JSON that it goes into; what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.messages import (
    QUESTIONS,
    Announce,
    AskGrant,
    AskJob,
    AskOutputSchema,
    AskReaders,
    AskSchemas,
    AskSettings,
    AskSplits,
    AwaitStep,
    BeginReading,
    BeginTask,
    Columns,
    Dealt,
    Grant,
    Heard,
    Job,
    KnownSchemas,
    OwnPartitions,
    Placement,
    Question,
    Readers,
    ReadSplit,
    Released,
    ReportFailure,
    ReportReads,
    ReportSent,
    ReportTaken,
    ReportWritten,
    RunToRead,
    Settings,
    Split,
    StepSplits,
    TakeTurns,
    TaskRuns,
    TaskSplits,
    WrittenSchema,
    answer_of,
    question_from_plain,
    question_to_plain,
)
from kcontrol.core.model import (
    ExchangeRun,
    ExchangeSlice,
    FailureKind,
    InputSchema,
    OutputSlice,
    SchemaReference,
)
from kcontrol.wire.shapes import from_plain, to_plain

SENT = ExchangeSlice("x", 3, 7, 9, (ExchangeRun(1, 7, 9, 2, "0" * 32),))
SLICE = OutputSlice("out", "topic-ä", 3, 7, 9, 2, "0" * 32)
SCHEMA = InputSchema("p", 1, 7, 12, "AVRO", '"string"', (SchemaReference("a.B", '"int"'),))
ASKED: list[tuple[Question[Any], Any]] = [
    (AwaitStep(4), Released(5)),
    (AwaitStep(4), Released(None)),
    (AskSplits("in", 5), StepSplits(1, "topic", "id", ((Split(0, 1, 2), Split(3, 4, 5)), ()), 4, 2)),
    (AskSettings(), Settings('{"bootstrap_servers": "a:1"}')),
    (Announce(1, "q", "in", (0, 3), 17, 0), Columns(("key", "value"))),
    (Announce(1, "q", "in", (), 17, 0), Columns(None)),
    (BeginTask(1, "q", "in", 0, 17, 0), TaskSplits("topic", "id", (Split(0, 1, 2),), 4, 2, ("key", "value"))),
    (BeginTask(1, "q", "in", 1, 17, 0), TaskSplits("", "", (), 0, 2, None)),
    (AskJob("q", 3), Job('{"serial": 1}')),
    (AskJob("q", 3), Job(None)),
    (ReportReads(1, "q", "in", (ReadSplit(0, 1, 2, 1, "f" * 32),)), Heard()),
    (
        AskGrant(1, "q", 0, 17, 0, Placement.DIRECT, 2, 4),
        Grant((OwnPartitions("out", (0, 2)),), 5, 1_700, "id", 9, 1),
    ),
    (TakeTurns(1, "q", 0, 17, "out", (WriteTurn(0, 5, 9),), (0, 3)), Dealt((WriteTurn(3, 0, -1),))),
    (TakeTurns(1, "q", 0, 17, "out", (), ()), Dealt(())),
    (ReportWritten(1, "q", 0, 17, (SLICE,)), Heard()),
    (ReportFailure(1, FailureKind.QUERY, "it\nfailed"), Heard()),
    (AskReaders("x", 5), Readers(1, 2)),
    (
        BeginReading(1, "q", "x", 0, 17, 0),
        TaskRuns(
            "topic", "id", (RunToRead(3, 7, 9, 2),), 5, 1, committed=False, producer_id=9, producer_epoch=1
        ),
    ),
    (ReportTaken(1, "q", "x", 0, 2), Heard()),
    (AskSchemas("in", (3, 7, 9), (3,)), KnownSchemas((3, 7), (SCHEMA,))),
    (AskOutputSchema("out", '"string"'), WrittenSchema(7)),
    (ReportSent(1, "x.send", 0, 17, (SENT,)), Heard()),
]


def through_json(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


@pytest.mark.parametrize(("question", "answer"), ASKED, ids=lambda value: type(value).__name__)
def test_a_question_and_its_answer_come_through(question: Question[Any], answer: Any) -> None:
    assert question_from_plain(through_json(question_to_plain(question))) == question
    assert answer_of(type(question)) is type(answer)
    assert from_plain(type(answer))(through_json(to_plain(type(answer))(answer))) == answer


def test_no_question_is_left_out_here() -> None:
    assert {type(question) for question, _ in ASKED} == set(QUESTIONS)


@pytest.mark.parametrize(
    "plain",
    [
        [],
        5,
        {},
        {"ask": "Sing"},
        {"ask": None},
        {"ask": "AwaitStep"},
        {"ask": "ReportReads", "serial": 1},
        {"ask": ["AwaitStep"]},
    ],
    ids=str,
)
def test_what_is_no_question_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match="the side channel"):
        question_from_plain(plain)
