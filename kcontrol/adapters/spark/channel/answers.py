"""The driver's end of the side channel: answers planners and tasks for the engine that runs in this process.

It exists before the engine does, because its address is part of the frames that a pipeline's queries are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import Attempt, Counted, ReadRange
from kcontrol.adapters.spark.channel.board import Board, Peer
from kcontrol.adapters.spark.channel.client import ChannelServer, Message
from kcontrol.adapters.spark.channel.settings import certificate_of, limits_of
from kcontrol.adapters.spark.channel.write_job import Placement
from kcontrol.core.model import FailureKind, OutputSlice
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings

LOOPBACK = "127.0.0.1"


class DriverHost:
    """Side channel and board of one Spark application. Close it after the engine."""

    def __init__(self, spark: SparkSession, settings: ClusterSettings) -> None:
        self.settings = settings
        self.board = Board()
        self.own_partitions: Callable[[Attempt, str], dict[str, tuple[int, ...]]] = lambda _attempt, _query: {}
        """By query: what this node may write of each of its outputs; set by the engine."""
        self.columns_used: Callable[[str, str], tuple[str, ...] | None] = lambda _query, _input: None
        """By query and input: the columns that the query can see, None for all; set by the engine."""
        self.checks_placing = False
        """Whether records must lie where `partitioned_by` says; set by the engine."""
        conf = spark.sparkContext.getConf()
        address = _listen_on(spark)
        certificate = certificate_of(spark, elsewhere=address != LOOPBACK)
        self.channel = ChannelServer(address, self._handle, limits_of(conf.get), certificate)

    def close(self) -> None:
        self.channel.close()

    def _handle(self, peer: Peer, message: Message) -> dict[str, Any]:
        match message["op"]:
            case "next_step":
                return {"step": self.board.next_step(peer, message["start"])}
            case "splits":
                return self._splits(message["input"], message["step"])
            case "settings":
                return self.settings.to_wire()
        attempt = self.board.attempt(message["serial"])
        match message["op"]:
            case "announce":
                attempt.announce(
                    message["query"], message["task_attempt"], frozenset(message["partitions"]), message["attempt_number"]
                )
                return {"columns": self.columns_used(message["query"], message["input"])}
            case "report_reads":
                for read in message["reads"]:
                    what = ReadRange(message["input"], read["partition"], read["from"], read["to"])
                    attempt.report_read(message["query"], what, Counted(read["records"], read["digest"]))
                return {}
            case "grant":
                return self._grant(attempt, message)
            case "report_written":
                slices = tuple(OutputSlice(*fields) for fields in message["slices"])
                attempt.report_written(message["query"], message["writer"], message["task_attempt"], slices)
                return {}
            case "failed":
                attempt.fail(FailureKind(message["kind"]), f"step {attempt.work.step}: {message['message']}")
                return {}
            case other:
                raise StepFailedError(FailureKind.LOST, f"unknown operation {other!r} on the side channel")

    def _splits(self, input_name: str, step: int) -> dict[str, Any]:
        attempt = self.board.current()
        if attempt is None or attempt.work.step != step:
            raise StepFailedError(FailureKind.LOST, f"Spark wants to run step {step}, which is not released")
        ranges = [item for item in attempt.work.division if item.input == input_name]
        tasks = [[(s.partition, s.from_, s.to) for s in splits] for splits in attempt.source_tasks(input_name)]
        topic, topic_id = (ranges[0].topic, ranges[0].topic_id) if ranges else ("", "")
        placed_among = len(ranges) if self.checks_placing else 0
        return {
            "serial": attempt.serial,
            "topic": topic,
            "topic_id": topic_id,
            "tasks": tasks,
            "placed_among": placed_among,
            "digest_version": attempt.digest_version,
        }

    def _grant(self, attempt: Attempt, message: Message) -> dict[str, Any]:
        query, writer = message["query"], message["writer"]
        asked = (query, writer, message["task_attempt"], message["attempt_number"])
        own = self.own_partitions(attempt, query)
        if message["placement"] == Placement.DIRECT:
            residues = set(attempt.grant_classes(*asked, modulus=message["modulus"]))
            own = {name: tuple(p for p in partitions if p in residues) for name, partitions in own.items()}
        else:
            attempt.grant(*asked)
            tasks = message["tasks"]  # of a single writer: 1, so that a second one may write nothing
            own = {name: tuple(p for p in partitions if p % tasks == writer) for name, partitions in own.items()}
        work = attempt.work
        return {
            "own": own,
            "step": work.step,
            "now_ms": work.now_ms,
            "transactional_id": work.transactional_id,
            "producer_id": work.token.producer_id,
            "producer_epoch": work.token.producer_epoch,
        }


def _listen_on(spark: SparkSession) -> str:
    """Loopback when every task runs on this machine, else the address at which executors reach the driver."""
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return LOOPBACK
    host: str = context.getConf().get("spark.driver.host", LOOPBACK) or LOOPBACK
    return host
