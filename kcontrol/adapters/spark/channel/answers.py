"""The driver's end of the side channel: answers planners and tasks for the engine that runs in this process.

It exists before the engine does, because its address is part of the frames that a
pipeline's queries are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted, ReadRange
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.messages import (
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
    OwnPartitions,
    Placement,
    Question,
    Readers,
    Released,
    ReportFailure,
    ReportReads,
    ReportSent,
    ReportTaken,
    ReportWritten,
    Settings,
    Split,
    StepSplits,
    TakeTurns,
    TaskRuns,
    TaskSplits,
)
from kcontrol.adapters.spark.channel.schemas import NoSchemas, Schemas, told_output, told_schemas
from kcontrol.adapters.spark.channel.sent_rows import place_of
from kcontrol.adapters.spark.channel.settings import certificate_of, limits_of
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.core.model import ExchangeSpec, FailureKind, SourceSplit
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings

LOOPBACK = "127.0.0.1"


class ChannelEndpoint:
    """Side channel and step gate of one Spark application. Close it after the engine."""

    def __init__(self, spark: SparkSession, settings: ClusterSettings) -> None:
        self.settings = settings
        self.gate = StepGate()
        self.own_partitions: Callable[[AttemptLedger, str], dict[str, tuple[int, ...]]] = (
            lambda _attempt, _query: {}
        )
        """By query: what this node may write of each of its outputs; set by the engine."""
        self.columns_used: Callable[[str, str], tuple[str, ...] | None] = lambda _query, _input: None
        """By query and input: the columns that the query can see, None for all; set by the engine."""
        self.job_ahead: Callable[[str, int], Job] = lambda _query, _number: Job(None)
        """By query: what became of a job that was begun ahead; set by the engine. Waits until it is known."""
        self.exchanges: Mapping[str, ExchangeSpec] = {}
        """By name: those of the pipeline; set by the engine."""
        self.rehearsal: Path | None = None
        """Where rehearsed steps leave what they would send; None: steps are real. Set by the engine."""
        self.checks_placing = False
        """Whether records must lie where `partitioned_by` says; set by the engine."""
        self.schemas: Schemas = NoSchemas()
        """Of values whose format says that a registry has them; set by whoever knows the log."""
        self.node = 0
        """Of the pipeline's nodes, which one this is; set by the engine."""
        conf = spark.sparkContext.getConf()
        address = _listen_on(spark)
        certificate = certificate_of(spark, elsewhere=address != LOOPBACK)
        limits = limits_of(conf.get)
        self._turn_s = limits.turn_s
        self.channel = ChannelServer(address, self._handle, limits, certificate)

    def close(self) -> None:
        self.channel.close()

    def _handle(self, peer: Peer, question: Question[Any]) -> Any:
        match question:
            case AwaitStep(start):
                return Released(self.gate.next_step(peer, start))
            case AskSplits(name, step):
                return self._splits(name, step)
            case AskSettings():
                return Settings(self.settings.to_json())
            case AskJob(query, number):
                return self.job_ahead(query, number)
            case Announce() as told:
                return Columns(self._announced(self.gate.attempt(told.serial), told, told.partitions))
            case BeginTask() as begun:
                return self._begin_task(self.gate.attempt(begun.serial), begun)
            case ReportReads(serial, query, name, reads):
                attempt = self.gate.attempt(serial)
                for read in reads:
                    what = ReadRange(name, read.partition, read.from_, read.to)
                    attempt.report_read(query, what, Counted(read.records, read.digest))
                return Heard()
            case AskGrant() as asked:
                return self._grant(self.gate.attempt(asked.serial), asked)
            case TakeTurns() as taken:
                return Dealt(self._turns(self.gate.attempt(taken.serial), taken))
            case ReportWritten(serial, query, writer, task_attempt, slices):
                self.gate.attempt(serial).report_written(query, writer, task_attempt, slices)
                return Heard()
            case AskReaders(name, step):
                attempt = self._at_step(step)
                return Readers(attempt.serial, attempt.exchanging.tasks(name))
            case BeginReading() as begun:
                return self._begin_reading(self.gate.attempt(begun.serial), begun)
            case ReportTaken(serial, query, name, task, records):
                self.gate.attempt(serial).exchanging.report_taken(query, name, task, records)
                return Heard()
            case ReportSent(serial, query, writer, task_attempt, sent):
                self.gate.attempt(serial).report_sent(query, writer, task_attempt, sent)
                return Heard()
            case AskSchemas() as asked:
                return told_schemas(self.schemas, self.node, self._under_way(), asked)
            case AskOutputSchema() as asked:
                return told_output(self.schemas, self._under_way(), asked)
            case ReportFailure(serial, kind, message):
                attempt = self.gate.attempt(serial)
                attempt.fail(kind, f"step {attempt.work.step}: {message}")
                return Heard()
        raise StepFailedError(
            FailureKind.LOST, f"unknown question {type(question).__name__} on the side channel"
        )

    def _splits(self, input_name: str, step: int) -> StepSplits:
        attempt = self._at_step(step)
        tasks = tuple(map(_plain, attempt.source_tasks(input_name)))
        topic, topic_id, placed_among = self._topic(attempt, input_name)
        return StepSplits(attempt.serial, topic, topic_id, tasks, placed_among, attempt.digest_version)

    def _at_step(self, step: int) -> AttemptLedger:
        attempt = self.gate.current()
        if attempt is None or attempt.work.step != step:
            raise StepFailedError(FailureKind.LOST, f"Spark wants to run step {step}, which is not released")
        return attempt

    def _under_way(self) -> AttemptLedger:
        attempt = self.gate.current()
        if attempt is None:
            raise StepFailedError(FailureKind.LOST, "a task asks for schemas, and no step is under way")
        return attempt

    def _begin_reading(self, attempt: AttemptLedger, begun: BeginReading) -> TaskRuns:
        who = (begun.query, begun.exchange, begun.task, begun.task_attempt, begun.attempt_number)
        runs = attempt.begin_reading(*who)
        where, token = self.exchanges[begun.exchange], attempt.work.token
        left = None if self.rehearsal is None else place_of(self.rehearsal, attempt.work.step - 1)
        return TaskRuns(
            topic=where.topic,
            topic_id=where.topic_id,
            runs=runs,
            step=attempt.work.step,
            node=attempt.exchanging.node,
            committed=attempt.expected is not None,
            producer_id=token.producer_id,
            producer_epoch=token.producer_epoch,
            rehearsed="" if left is None else str(left),
        )

    def _begin_task(self, attempt: AttemptLedger, begun: BeginTask) -> TaskSplits:
        tasks = attempt.source_tasks(begun.input)
        splits = _plain(tasks[begun.task]) if begun.task < len(tasks) else ()
        columns = self._announced(attempt, begun, [split.partition for split in splits])
        topic, topic_id, placed_among = self._topic(attempt, begun.input)
        return TaskSplits(topic, topic_id, splits, placed_among, attempt.digest_version, columns)

    def _topic(self, attempt: AttemptLedger, input_name: str) -> tuple[str, str, int]:
        """Name and id of what an input reads in this attempt, and among how many partitions its records are
        placed (0: that is not checked)."""
        ranges = [item for item in attempt.work.division if item.input == input_name]
        topic, topic_id = (ranges[0].topic, ranges[0].topic_id) if ranges else ("", "")
        return topic, topic_id, len(ranges) if self.checks_placing else 0

    def _announced(
        self, attempt: AttemptLedger, told: Announce | BeginTask, partitions: Iterable[int]
    ) -> tuple[str, ...] | None:
        """A task is about to read these partitions; the columns that it needs."""
        attempt.announce(told.query, told.task_attempt, frozenset(partitions), told.attempt_number)
        return self.columns_used(told.query, told.input)

    def _grant(self, attempt: AttemptLedger, asked: AskGrant) -> Grant:
        who = (asked.query, asked.writer, asked.task_attempt, asked.attempt_number)
        own = self.own_partitions(attempt, asked.query)
        if asked.placement is Placement.DIRECT:
            residues = set(attempt.grant_classes(*who, modulus=asked.modulus))
            own = {name: tuple(p for p in partitions if p in residues) for name, partitions in own.items()}
        elif asked.placement is Placement.TURNS:
            attempt.grant_turns(*who)
        else:
            attempt.grant(*who)
            # Of a single writer there is 1 task, so that a second one may write nothing.
            own = {
                name: tuple(p for p in partitions if p % asked.tasks == asked.writer)
                for name, partitions in own.items()
            }
        work = attempt.work
        return Grant(
            own=tuple(OwnPartitions(name, partitions) for name, partitions in own.items()),
            step=work.step,
            now_ms=work.now_ms,
            transactional_id=work.transactional_id,
            producer_id=work.token.producer_id,
            producer_epoch=work.token.producer_epoch,
        )

    def _turns(self, attempt: AttemptLedger, taken: TakeTurns) -> tuple[WriteTurn, ...]:
        who = (taken.query, taken.writer, taken.task_attempt)
        return attempt.take_turns(*who, taken.output, taken.back, taken.wanted, self._turn_s)


def _plain(splits: Iterable[SourceSplit]) -> tuple[Split, ...]:
    return tuple(Split(each.partition, each.from_, each.to) for each in splits)


def _listen_on(spark: SparkSession) -> str:
    """Loopback when every task runs on this machine, else the address at which executors reach the driver."""
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return LOOPBACK
    host: str = context.getConf().get("spark.driver.host", LOOPBACK) or LOOPBACK
    return host
