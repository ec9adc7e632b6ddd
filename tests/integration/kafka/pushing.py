"""Lives of processes that push one request and die by SIGKILL behind the n-th thing that they have asked Kafka to write."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.core.model import InputSpec
from kcontrol.requests.push.bodies import InputRow
from kcontrol.requests.push.log import Push, Pushed
from kcontrol.settings.cluster import ClusterSettings

WRITES = (
    "InitProducerIdRequest",
    "AddPartitionsToTxnRequest",
    "ProduceRecordsRequest",
    "EndTxnRequest",
    "CommitAndBumpRequest",
)
NEVER = -1
PIPELINE = "p"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.integration.kafka.pushing"])


def rows_of(request_id: str, count: int = 6) -> list[InputRow]:
    """Which name their request; those with keys go to several partitions."""
    return [InputRow(b"key-%d" % (index % 4), f"{request_id}/{index}".encode()) for index in range(count)]


@dataclass(frozen=True)
class Life:
    """dies_after: so many writes; NEVER: it lives."""

    settings: ClusterSettings
    item: InputSpec
    request_id: str
    dies_after: int = NEVER

    def start(self, answers: Any = None) -> BaseProcess:
        process = _context.Process(target=_live, args=(self, answers))
        process.start()
        return process


async def pushed(
    settings: ClusterSettings, item: InputSpec, request_id: str, rows: Sequence[InputRow] | None = None
) -> Pushed:
    """By a log of its own."""
    log = KafkaPushLog(settings, SystemClock())
    try:
        return await log.push(Push(PIPELINE, item, request_id, rows_of(request_id) if rows is None else rows))
    finally:
        await log.close()


def answers() -> Any:
    """A queue of (writes, token, replayed) for lives to answer into."""
    return _context.Queue()


def _live(life: Life, told: Any) -> None:
    writes = _count_writes(life.dies_after)
    found = asyncio.run(pushed(life.settings, life.item, life.request_id))
    if told is not None:
        told.put((writes[0], found.request.token, found.replayed))


def _count_writes(dies_after: int) -> list[int]:
    count, real = [0], KafkaRpc.send

    async def counted(self: KafkaRpc, node: int, request: Any, *more: Any) -> Any:
        writes = type(request).__name__ in WRITES
        if writes and count[0] == dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await real(self, node, request, *more)
        count[0] += writes
        return answer

    KafkaRpc.send = counted  # type: ignore[method-assign]
    return count
