"""A node of a stopped pipeline: it reads what its user wants, and does nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.log.definitions import is_deletion
from kcontrol.core.model import Desired, DesiredMode, Logged, PipelineSpec
from kcontrol.errors import TopicError
from kcontrol.sessions.first_to_end import first_to_end
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, follow, until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.node")


async def until_wanted(
    settings: ClusterSettings,
    pipeline: str,
    stands_by: Callable[[], None],
    deadline_ms: int = DEFAULT_DEADLINE_MS,
) -> None:
    """Return as soon as nobody wants the pipeline to be stopped; at once if nobody ever has.

    stands_by: called once, if that has to be waited for. deadline_ms: how long Kafka may be away meanwhile.
    Raises RetriableError when it is away for longer, and AccessError.
    """
    try:
        log = await until_deadline(
            lambda: KafkaControlLog.open(settings, pipeline), "looking for wishes", _log, deadline_ms
        )
    except TopicError:
        return  # There is no control topic, so nobody has asked for anything.
    wishes = _Wishes(pipeline)
    try:
        wishes.take(await until_deadline(log.read_to_end, "looking for wishes", _log, deadline_ms))
        if wishes.wanted.is_set():
            return
        wishes.stands_by = True
        stands_by()
        await first_to_end(
            follow(log.tail, wishes.take, "waiting for a wish", _log, deadline_ms), wishes.wanted.wait()
        )
    finally:
        await log.close()


class _Wishes:
    """The newest of them. A pipeline that is deleted while somebody stands by is wanted once it is submitted
    again: by somebody else, for a process that was there before would only undo what was meant."""

    def __init__(self, pipeline: str) -> None:
        self.wanted = asyncio.Event()
        self.wanted.set()
        self.stands_by = False
        self._pipeline = pipeline
        self._deleted = False

    def take(self, records: Sequence[Logged]) -> None:
        for logged in records:
            record = logged.record
            if isinstance(record, Desired):
                self._deleted = False
                if record.mode is DesiredMode.STOPPED:
                    self.wanted.clear()
                else:
                    self.wanted.set()
            elif is_deletion(record, self._pipeline):
                self._deleted = True
                if self.stands_by:
                    _log.warning(
                        "pipeline %s was deleted: this process waits until it is submitted again",
                        self._pipeline,
                    )
                else:
                    self.wanted.set()
            elif isinstance(record, PipelineSpec) and self._deleted:
                self._deleted = False
                self.wanted.set()
