"""Everything that takes part, one after the other: records/s out of one backlog and the latency of one stream, for each
workload. What can't be measured has a sentence instead of a figure, and the others go on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from bench.figures import Tail
from bench.latency import PARTITIONS
from bench.latency import WORKLOADS as OF_LATENCY
from bench.peers import flink, kafka_streams, quix
from bench.peers.contender import Contender, PeerContender
from bench.peers.own_sides import KcontrolContender, SparkContender
from bench.peers.peer import WORKLOADS
from bench.peers.plan import PeerPlan
from bench.topics import make_source
from kcontrol.errors import KcontrolError

PEERS = (kafka_streams.PEER, flink.PEER, flink.MINI_BATCH, quix.PEER)
NAMES = ("spark", "kcontrol", *(peer.name for peer in PEERS))
FIGURES = THROUGHPUT, LATENCY = ("throughput", "latency")
FAILURES = (RuntimeError, KafkaException, KcontrolError, OSError, subprocess.SubprocessError)


@dataclass(frozen=True)
class PeerFigures:
    """Of one workload. Either figure may be missing: it was not asked for, or `failed` says why.

    records_per_s: out of a backlog. latency: in milliseconds, of a stream.
    """

    title: str
    delivery: str
    workload: str
    records_per_s: float | None = None
    latency: Tail | None = None
    failed: str = ""


def contenders(names: Sequence[str]) -> list[Contender]:
    """Those with these names, always in the same order."""
    everyone: list[Contender] = [
        SparkContender(),
        KcontrolContender(),
        *(PeerContender(peer) for peer in PEERS),
    ]
    return [each for each in everyone if each.name in names]


def measure_peers(
    bootstrap_servers: str,
    plan: PeerPlan,
    taking_part: Sequence[Contender],
    say: Callable[[str], None],
    workloads: Sequence[str] = WORKLOADS,
    figures: Sequence[str] = FIGURES,
) -> list[PeerFigures]:
    """Each of these workloads that one has, and of `FIGURES` these."""
    made: set[int] = set()
    found = []
    for contender in taking_part:
        wanted = [each for each in contender.workloads if each in workloads]
        try:
            contender.prepare()
        except FAILURES as error:
            say(f"{contender.title} is left out. {error}")
            found += [
                PeerFigures(contender.title, contender.delivery, each, failed=str(error)) for each in wanted
            ]
            continue
        records = contender.backlog(plan)
        source = f"backlog-{records}"
        if wanted and THROUGHPUT in figures and records not in made:
            make_source(bootstrap_servers, source, records, PARTITIONS, say)
            made.add(records)
        for workload in wanted:
            found.append(_measure(bootstrap_servers, source, contender, workload, plan, figures, say))
    return found


def _measure(
    bootstrap_servers: str,
    source: str,
    contender: Contender,
    workload: str,
    plan: PeerPlan,
    figures: Sequence[str],
    say: Callable[[str], None],
) -> PeerFigures:
    """The second figure of a workload is measured even if the first one failed."""
    rate: float | None = None
    tail: Tail | None = None
    failures = []
    what = f"{contender.title}, {workload}"
    try:
        if THROUGHPUT in figures:
            rate = contender.throughput(bootstrap_servers, source, workload, plan)
            say(f"{what}: {rate:,.0f} records/s")
    except FAILURES as error:
        failures.append(f"{THROUGHPUT}: {error}")
    try:
        if LATENCY in figures and workload in OF_LATENCY:
            tail = contender.latency(bootstrap_servers, workload, plan.stream)
            say(f"{what}: {tail.median:.1f} ms, 99 % within {tail.p99:.1f} ms")
    except FAILURES as error:
        failures.append(f"{LATENCY}: {error}")
    for failure in failures:
        say(f"{what} has no figure. {failure}")
    return PeerFigures(contender.title, contender.delivery, workload, rate, tail, "; ".join(failures))
