"""The request that deletes what lies before an offset (KIP-107), of one partition, and how long a broker may take for it."""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.admin import DeleteRecordsRequest


class DeleteBeforeRequest(DeleteRecordsRequest):  # type: ignore[misc]
    """By the topic's name, as there is no other way."""

    def __init__(self, topic: str, partition: int, offset: int, timeout_ms: int) -> None:
        super().__init__([(topic, [(partition, offset)])], timeout_ms)
        self.held_ms = timeout_ms
        """For so long the broker waits for the replicas before it answers."""


def code_of(response: Any) -> int:
    """The error code of the one partition in a response."""
    ((_, partitions, *_),) = response.topics
    ((_, _, code, *_),) = partitions
    return int(code)
