"""One column's worth of the comparison: whatever takes part gives records/s out of a backlog and the latency of a stream,
and raises an error instead of a figure that it can't stand for."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import IsolationLevel

from bench.figures import Tail
from bench.latency import CORES, PARTITIONS, Receiver, measure_interval, numbers_of, streaming
from bench.peers.checks import Output, check
from bench.peers.peer import EXACTLY_ONCE, Commands, Job, Peer
from bench.peers.plan import PeerPlan
from bench.peers.process import PeerProcesses, started
from bench.peers.progress import progress, records_per_s
from bench.plan import Stream
from bench.topics import create_topics, delete_topics

FIRST_RECORD_S = 120.0
LATENCY_COMMIT_MS = 100


class Contender(Protocol):
    """Who takes part. prepare comes before everything else and raises what `Peer` says."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def delivery(self) -> str: ...

    @property
    def workloads(self) -> Sequence[str]: ...

    def prepare(self) -> None: ...

    def backlog(self, plan: PeerPlan) -> int:
        """Records that it needs in the source."""
        ...

    def throughput(self, bootstrap_servers: str, source: str, workload: str, plan: PeerPlan) -> float: ...

    def latency(self, bootstrap_servers: str, workload: str, stream: Stream) -> Tail: ...


class PeerContender:
    """A peer in processes of its own."""

    delivery = EXACTLY_ONCE

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._commands: Commands | None = None
        self.name, self.title, self.workloads = peer.name, peer.title, peer.workloads

    def prepare(self) -> None:
        self._commands = self._peer.prepare()

    def backlog(self, plan: PeerPlan) -> int:
        return plan.slow_records if self._peer.is_slow else plan.records

    def throughput(self, bootstrap_servers: str, source: str, workload: str, plan: PeerPlan) -> float:
        """Through all of the backlog; its output is checked record by record, or key by key."""
        records, name = self.backlog(plan), self._new_name(workload)
        with (
            self._running(bootstrap_servers, name, workload, source, plan.commit_ms) as processes,
            progress(bootstrap_servers, name, source, name, PARTITIONS) as seen,
        ):
            looks = seen.watch(records, processes.check)
            processes.stop()
            output = Output(bootstrap_servers, name, seen.ends(IsolationLevel.READ_COMMITTED))
            check(workload, output, records)
        return records_per_s(looks, records)

    def latency(self, bootstrap_servers: str, workload: str, stream: Stream) -> Tail:
        """As kcontrol's own is measured, with the same two clients."""
        name = self._new_name(workload)
        source = f"{name}-source"
        create_topics(bootstrap_servers, source, partitions=PARTITIONS)
        with (
            self._running(bootstrap_servers, name, workload, source, LATENCY_COMMIT_MS) as processes,
            streaming(bootstrap_servers, source, name, stream, numbers_of(workload)) as (sender, receiver),
        ):
            sender.send()
            await_first(receiver, processes.check)
            sender.start()
            interval = measure_interval(sender, receiver, stream.warm_up_s, stream.measured_s)
            processes.check()
        return interval.took

    def _new_name(self, workload: str) -> str:
        return f"{self.name}-{workload}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def _running(
        self, bootstrap_servers: str, name: str, workload: str, source: str, commit_ms: int
    ) -> Iterator[PeerProcesses]:
        if self._commands is None:
            raise RuntimeError(f"{self.title} was not prepared")
        create_topics(bootstrap_servers, name, partitions=PARTITIONS)
        try:
            with tempfile.TemporaryDirectory(
                prefix=f"bench-{self.name}-", ignore_cleanup_errors=True
            ) as scratch:
                home = Path(scratch) / "home"
                home.mkdir()
                job = Job(workload, bootstrap_servers, source, name, name, CORES, commit_ms, home)
                with started(self._commands(job), Path(scratch)) as processes:
                    yield processes
        finally:
            delete_topics(bootstrap_servers, name)


def await_first(receiver: Receiver, check_alive: Callable[[], None]) -> None:
    """Until the first record has come through: no stream shall pile up while processes start. Raises RuntimeError."""
    deadline = time.monotonic() + FIRST_RECORD_S

    def has_come() -> bool:
        check_alive()
        return bool(receiver.came_ns) or time.monotonic() > deadline

    receiver.receive(has_come)
    if not receiver.came_ns:
        raise RuntimeError(f"the first record did not come in {FIRST_RECORD_S:.0f} s")
