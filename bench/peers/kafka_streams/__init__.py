"""Kafka Streams: one process, a thread for each core, `exactly_once_v2`, producers' batches as large as Flink's, all else
as it is by default (RocksDB below its record cache, a changelog topic)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.peers import jvm
from bench.peers.peer import Command, Commands, Job, Peer, options_of

HERE = Path(__file__).parent
SOURCE, LOCK = HERE / "StreamsApp.java", HERE / "jars.lock"


def prepare() -> Commands:
    java = jvm.prepare(SOURCE, LOCK)

    def commands(job: Job) -> Sequence[Command]:
        options = options_of(job) | {"cores": str(job.cores)}
        return [(*java, *(f"{name}={value}" for name, value in options.items()))]

    return commands


PEER = Peer("kafka-streams", "Kafka Streams 4.3.1", prepare)
