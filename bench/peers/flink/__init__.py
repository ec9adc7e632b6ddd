"""Flink SQL on a mini-cluster in one process, as many parallel tasks as cores, state on the heap, checkpoints in a local
directory, Kafka's transactional sink.

The aggregate runs in two ways: each record makes its key's row anew, or, as Flink's page on tuning has it for throughput,
records are collected for as long as a commit takes (`table.exec.mini-batch`), counted where they are read, and each key
has one row for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.peers import jvm
from bench.peers.peer import Command, Commands, Job, Peer, options_of

HERE = Path(__file__).parent
SOURCE, LOCK = HERE / "FlinkApp.java", HERE / "jars.lock"
OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
    "sun.nio.ch",
)
"""Packages of java.base, as Flink's own configuration opens them."""


def prepare(*, mini_batch: bool) -> Commands:
    java = jvm.prepare(SOURCE, LOCK, [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED])

    def commands(job: Job) -> Sequence[Command]:
        options = options_of(job) | {"cores": str(job.cores), "mini-batch": str(mini_batch).lower()}
        return [(*java, *(f"{name}={value}" for name, value in options.items()))]

    return commands


PEER = Peer("flink", "Flink 2.2.1 SQL", partial(prepare, mini_batch=False))
MINI_BATCH = Peer(
    "flink-mini-batch",
    "Flink 2.2.1 SQL, mini-batches",
    partial(prepare, mini_batch=True),
    workloads=("aggregate",),
)
