"""Deletes from the topics of exchanges what no node can need any more.

A node that recovers replays steps out of the log, from what was sent to it then. Once the log has dropped a
step, what was sent in it is of no use. Only what a committed record has made needless is deleted, so a call of
a coordinator that was replaced does no harm, and one that is lost is made up for by the next.

Where the oldest rows begin that are needed is what the oldest step says. Of slots that it has not written, as those of nodes
that a change of the layout has left out, it is known where the newest rows end that are not: what the steps say that are
dropped now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.model import ExchangeSpec, LoggedStep, StepBoundary
from kcontrol.errors import AccessError, KcontrolError, TopicError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)


class KafkaExchangePurge:
    """The port `ExchangePurge`, for one pipeline."""

    def __init__(self, settings: ClusterSettings, pipeline: str) -> None:
        self._settings, self._pipeline = settings, pipeline
        self._is_denied = False

    async def purge(
        self, exchanges: Sequence[ExchangeSpec], first_step: int, dropped: Sequence[int] = ()
    ) -> None:
        """As the port says."""
        if self._is_denied:
            return
        try:
            await self._purge(exchanges, first_step, dropped)
        except AccessError as error:
            self._is_denied = True
            _log.warning(
                "Pipeline %r: what its exchanges need no more stays, until their topics' own retention: %s",
                self._pipeline,
                error,
            )
        except KcontrolError as error:
            _log.info(
                "Pipeline %r: what its exchanges need no more is deleted another time: %s",
                self._pipeline,
                error,
            )

    async def _purge(
        self, exchanges: Sequence[ExchangeSpec], first_step: int, dropped: Sequence[int]
    ) -> None:
        log = KafkaStepsLog(self._settings, self._pipeline)
        try:
            begins = begins_of(await log.read_again(first_step, first_step), first_step)
            ends: Mapping[str, Mapping[int, int]] | None = None
            for exchange in exchanges:
                partitions, before = await self._partitions(exchange), begins.get(exchange.name, {})
                left = set(range(partitions)) - before.keys() if dropped else set()
                held = (
                    await asyncio.to_thread(self._holds, exchange.topic, partitions, left) if left else False
                )
                if held:
                    if ends is None:
                        ends = ends_of(await log.read_again(min(dropped), first_step), first_step)
                    before = {**ends.get(exchange.name, {}), **before}
                if partitions and before:
                    await asyncio.to_thread(self._delete, exchange.topic, before)
        finally:
            await log.close()

    def _holds(self, topic: str, partitions: int, left: Collection[int]) -> bool:
        """Whether there is anything in some of these partitions."""
        found = self._admin.offsets(topic, partitions)
        return any(found.earliest[each] < found.latest[each] for each in left)

    def _delete(self, topic: str, before: Mapping[int, int]) -> None:
        self._admin.delete_before(topic, before)

    @cached_property
    def _admin(self) -> TopicAdmin:
        return TopicAdmin(self._settings)

    async def _partitions(self, exchange: ExchangeSpec) -> int:
        """How many it has; 0 if it is not the topic that the steps were written to: offsets of another one mean other
        records."""
        rpc = KafkaRpc(self._settings)
        try:
            topic = await rpc.topic(exchange.topic)
            return len(topic.leaders) if topic_id_text(topic.topic_id) == exchange.topic_id else 0
        except TopicError:
            return 0
        finally:
            await rpc.close()


def begins_of(entries: Iterable[LoggedStep], first_step: int) -> Mapping[str, Mapping[int, int]]:
    """By exchange and partition, where the oldest rows begin that a step from `first_step` on has sent, as far as
    these entries say: of a partition that none of them has written, nothing is known."""
    found: dict[str, dict[int, int]] = {}
    for entry in entries:
        if isinstance(entry.record, StepBoundary) and entry.record.step >= first_step:
            for piece in entry.record.exchanges:
                begins = found.setdefault(piece.exchange, {})
                begins[piece.partition] = min(begins.get(piece.partition, piece.from_), piece.from_)
    return found


def ends_of(entries: Iterable[LoggedStep], first_step: int) -> Mapping[str, Mapping[int, int]]:
    """By exchange and partition, where the newest rows end that a step before `first_step` has sent, as far as these entries
    say. What later steps, and attempts, have sent lies behind that."""
    found: dict[str, dict[int, int]] = {}
    for entry in entries:
        if isinstance(entry.record, StepBoundary) and entry.record.step < first_step:
            for piece in entry.record.exchanges:
                found.setdefault(piece.exchange, {})[piece.partition] = piece.to
    return found
