"""Spark's own path and kcontrol beside the peers, on the same topics: throughput as the rest of the bench measures it,
latency with the same two clients."""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Tail
from bench.kcontrol_side import run_kcontrol
from bench.latency import CORES, PARTITIONS, measure_interval, numbers_of, streaming, through_pipeline
from bench.peers.contender import await_first
from bench.peers.peer import AT_LEAST_ONCE, EXACTLY_ONCE, WORKLOADS, PeerMissingError, missing_packages
from bench.peers.plan import PeerPlan
from bench.peers.process import started
from bench.plan import Measurement, Places, Stream
from bench.spark_environment import LOCK, SparkEnvironment, prepare
from bench.spark_side import command_of, run_spark
from bench.topics import create_topics, delete_topics

MAX_BATCH_RECORDS = 100_000


def _measurement(workload: str, plan: PeerPlan) -> Measurement:
    return Measurement(workload, plan.step_records, plan.warm_up_steps, plan.steps)


class KcontrolContender:
    """As in every other part of the bench."""

    name, title, delivery = "kcontrol", "kcontrol", EXACTLY_ONCE
    workloads: Sequence[str] = WORKLOADS

    def prepare(self) -> None:
        """Nothing is needed."""

    def backlog(self, plan: PeerPlan) -> int:
        return plan.records

    def throughput(self, bootstrap_servers: str, source: str, workload: str, plan: PeerPlan) -> float:
        places = Places(bootstrap_servers, source, PARTITIONS, CORES)
        return run_kcontrol(places, _measurement(workload, plan)).run.records_per_s

    def latency(self, bootstrap_servers: str, workload: str, stream: Stream) -> Tail:
        return through_pipeline(bootstrap_servers, workload, stream)[0].took


class SparkContender:
    """Spark's own source and sink, which promise at least once; for latency micro-batches follow each other at once."""

    name, title, delivery = "spark", "Spark 4.0 and its connector", AT_LEAST_ONCE
    workloads: Sequence[str] = WORKLOADS

    def __init__(self) -> None:
        self._environment: SparkEnvironment | None = None

    def prepare(self) -> None:
        try:
            self._environment = prepare()
        except subprocess.SubprocessError as error:
            raise PeerMissingError(missing_packages(LOCK, error)) from error

    def backlog(self, plan: PeerPlan) -> int:
        return plan.records

    def throughput(self, bootstrap_servers: str, source: str, workload: str, plan: PeerPlan) -> float:
        places = Places(bootstrap_servers, source, PARTITIONS, CORES)
        return run_spark(self._prepared(), places, _measurement(workload, plan)).records_per_s

    def latency(self, bootstrap_servers: str, workload: str, stream: Stream) -> Tail:
        name = f"spark-{workload}-{uuid.uuid4().hex[:8]}"
        source = f"{name}-source"
        places = Places(bootstrap_servers, source, PARTITIONS, CORES)
        create_topics(bootstrap_servers, source, name, partitions=PARTITIONS)
        with tempfile.TemporaryDirectory(prefix="bench-spark-", ignore_cleanup_errors=True) as scratch:
            command = command_of(self._prepared(), places, workload, name, scratch, MAX_BATCH_RECORDS)
            with (
                started([command], Path(scratch)) as processes,
                streaming(bootstrap_servers, source, name, stream, numbers_of(workload)) as (
                    sender,
                    receiver,
                ),
            ):
                sender.send()
                await_first(receiver, processes.check)
                sender.start()
                interval = measure_interval(sender, receiver, stream.warm_up_s, stream.measured_s)
        delete_topics(bootstrap_servers, source, name)
        return interval.took

    def _prepared(self) -> SparkEnvironment:
        if self._environment is None:
            raise RuntimeError("Spark's environment was not prepared")
        return self._environment
