"""How fast a peer goes through a backlog, from outside: the place in the source that its group has committed, and when.

What counts is from one commit to another, as kcontrol's steps do from boundary to boundary: the start and the first
third of the backlog are warm-up, and the last commit, before which nothing may have been left to do, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

WARM_UP = 1 / 3
LEAST_COMMITS = 3
LOOK_S = 0.02
TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 240.0
COMING_UP = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What a broker says of a group that nobody has used before."""


@dataclass(frozen=True)
class Look:
    """So many records of the source were committed when it was looked, for the first time."""

    at_s: float
    records: int


def records_per_s(looks: Sequence[Look], records: int) -> float:
    """Raises RuntimeError when too few commits are left between warm-up and end."""
    counted = [look for look in looks if WARM_UP * records <= look.records < records]
    if len(counted) < LEAST_COMMITS:
        raise RuntimeError(
            f"only {len(counted)} commits were seen between warm-up and end: a backlog of {records:,} records is too small "
            "for this machine"
        )
    first, last = counted[0], counted[-1]
    return (last.records - first.records) / (last.at_s - first.at_s)


class Progress:
    """Looks at a group's committed offsets and a sink's ends."""

    def __init__(self, bootstrap_servers: str, group: str, source: str, sink: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._source = [TopicPartition(source, partition) for partition in range(partitions)]
        self._committed = 0
        self._sink = [TopicPartition(sink, partition) for partition in range(partitions)]

    def committed(self) -> int:
        """Records of the source that the group has committed; those of the last look while a coordinator is being found."""
        try:
            found = self._consumer.committed(self._source, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in COMING_UP:
                raise
        else:
            self._committed = sum(max(0, each.offset) for each in found)
        return self._committed

    def watch(self, records: int, check: Callable[[], None]) -> list[Look]:
        """Until so many are committed and no transaction is open in the sink; check raises when there is no use in waiting.

        Raises RuntimeError when it takes too long.
        """
        looks: list[Look] = []
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while (done := self.committed()) < records or not self._is_settled():
            now = time.monotonic()
            if done > (looks[-1].records if looks else 0):
                looks.append(Look(now, done))
            if now > deadline:
                raise RuntimeError(f"{done:,} of {records:,} records were committed in {RUN_TIMEOUT_S:.0f} s")
            check()
            time.sleep(LOOK_S)
        return looks

    def ends(self, isolation: IsolationLevel) -> dict[int, int]:
        """Of the sink, by partition."""
        futures = self._admin.list_offsets(
            {part: OffsetSpec.latest() for part in self._sink}, isolation_level=isolation
        )
        return {where.partition: future.result(TIMEOUT_S).offset for where, future in futures.items()}

    def _is_settled(self) -> bool:
        return self.ends(IsolationLevel.READ_COMMITTED) == self.ends(IsolationLevel.READ_UNCOMMITTED)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def progress(
    bootstrap_servers: str, group: str, source: str, sink: str, partitions: int
) -> Iterator[Progress]:
    """Closed at the end of the block."""
    opened = Progress(bootstrap_servers, group, source, sink, partitions)
    try:
        yield opened
    finally:
        opened.close()
