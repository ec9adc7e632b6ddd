"""The Produce request that says why records were refused (KIP-467); aiokafka has its layout
but stops one version earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.protocol.api import Request
from aiokafka.protocol.produce import ProduceRequest_v8

from kcontrol.adapters.kafka.client.codes import Verdict, verdict_of

HELD_MS = 2_000
"""For so long a broker waits for the replicas before it says that they take longer, and is asked the same
again. Short, so that a broker that waits for others is told from one that hangs."""

_ALL_REPLICAS = -1


class ProduceRecordsRequest(Request[ProduceRequest_v8]):  # type: ignore[misc]
    """Batches for partitions of one topic, one batch each; acknowledged by all replicas in sync.

    transactional_id: of the transaction that they are in, if any.
    """

    API_KEY = 0

    def __init__(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        topic: str,
        batches: Sequence[tuple[int, bytes | bytearray]],
    ) -> None:
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._topics = [(topic, list(batches))]

    @property
    def held_ms(self) -> int:
        """How long the broker may wait for the replicas before it answers."""
        return self._timeout_ms

    def build(self, request_struct_class: type[ProduceRequest_v8]) -> ProduceRequest_v8:
        return request_struct_class(self._transactional_id, _ALL_REPLICAS, self._timeout_ms, self._topics)


class ProducedPartition(NamedTuple):
    """A partition in a produce response."""

    partition: int
    error_code: int
    offset: int
    timestamp: int
    log_start_offset: int
    record_errors: Any
    error_message: str | None


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """What the broker says of one partition's batch. message: why it was refused, or ''."""

    partition: int
    code: int
    base_offset: int
    message: str

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.code)


def answers(response: Any) -> list[ProduceAnswer]:
    """The answers in a response, one for each batch of the request."""
    found = []
    for _, partitions in response.topics:
        for part in map(ProducedPartition._make, partitions):
            reasons = [part.error_message, *(reason for _, reason in part.record_errors or ())]
            message = next((reason for reason in reasons if reason), "")
            found.append(ProduceAnswer(part.partition, part.error_code, part.offset, message))
    return found
