"""A node of a stopped pipeline: it reads what its user wants, and does nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.process_name import is_of, process_name
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.definitions import is_deletion
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, Logged, NodeJoin, PipelineSpec
from kcontrol.errors import ReplacedError, TopicError
from kcontrol.sessions.first_to_end import first_to_end
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, follow, until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.node")


async def until_wanted(
    settings: ClusterSettings,
    pipeline: str,
    stands_by: Callable[[], None],
    deadline_ms: int = DEFAULT_DEADLINE_MS,
    placement: AgentPlacement | None = None,
    node: int | None = None,
) -> bool:
    """Return as soon as nobody wants the pipeline to be stopped; at once if nobody ever has. False: the job has ended for which
    an agent has started this process, and it is to end as well.

    stands_by: called once, if that has to be waited for. deadline_ms: how long Kafka may be away meanwhile. placement: by which
    an agent has started it. node: which it is to be; if it has been that before, and another process since, it is not any more.

    Raises ReplacedError for that; RetriableError when Kafka is away for longer, and AccessError.
    """
    try:
        log = await until_deadline(
            lambda: KafkaControlLog.open(settings, pipeline), "looking for wishes", _log, deadline_ms
        )
    except TopicError:
        return True  # There is no control topic, so nobody has asked for anything.
    wishes = _Wishes(pipeline, placement)
    try:
        wishes.take(await until_deadline(log.read_to_end, "looking for wishes", _log, deadline_ms))
        if not wishes.wanted.is_set():
            wishes.stands_by = True
            stands_by()
            await first_to_end(
                follow(log.tail, wishes.take, "waiting for a wish", _log, deadline_ms), wishes.wanted.wait()
            )
        if node is not None and wishes.was_replaced(node):
            raise ReplacedError(
                f"node {node} of pipeline {pipeline!r} was replaced: another process has joined as it since this one did"
            )
        return not wishes.ended
    finally:
        await log.close()


class _Wishes:
    """The newest of them. A pipeline that is deleted while somebody stands by is wanted once it is submitted
    again: by somebody else, for a process that was there before would only undo what was meant.

    What agents say of the end of a job, those are past that were placed after it; who was placed before it, ends.
    """

    def __init__(self, pipeline: str, placement: AgentPlacement | None) -> None:
        self.wanted = asyncio.Event()
        self.wanted.set()
        self.stands_by = False
        self._pipeline = pipeline
        self._deleted = False
        self._view = PipelineView.empty(pipeline)
        self._placement = placement
        self._mine: dict[int, int] = {}
        """By node, the newest incarnation of this process."""
        self.ended = False

    def was_replaced(self, node: int) -> bool:
        """Whether this process has joined as the node, in an earlier life, and another one has after it."""
        mine = self._mine.get(node)
        return mine is not None and self._view.is_replaced(node, mine, self._placement)

    def take(self, records: Sequence[Logged]) -> None:
        for logged in records:
            record = logged.record
            self._view = evolve(self._view, logged)
            if isinstance(record, Desired):
                self._deleted = False
                self._judge()
            elif isinstance(record, NodeJoin) and not self._deleted:
                if record.pipeline == self._pipeline and is_of(record.uuid, process_name()):
                    self._mine[record.node] = logged.offset
                self._judge()
            elif is_deletion(record, self._pipeline):
                self._deleted = True
                self._mine.clear()
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

    def _judge(self) -> None:
        desired, ended, placed = self._view.desired(), self._view.ended, self._placement
        self.ended = ended is not None and placed is not None and placed < ended
        if self.ended or desired is None or desired.mode is not DesiredMode.STOPPED or self._is_past(desired):
            self.wanted.set()
        else:
            self.wanted.clear()

    def _is_past(self, desired: Desired) -> bool:
        return desired.wish is not None and self._placement is not None and desired.wish < self._placement
