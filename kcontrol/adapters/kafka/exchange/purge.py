"""Deletes from the topics of exchanges what no node can need any more.

A node that recovers replays steps out of the log, from what was sent to it then. Once the log has dropped a
step, what was sent in it is of no use. Only what a committed record has made needless is deleted, so a call of
a coordinator that was replaced does no harm, and one that is lost is made up for by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
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

    async def purge(self, exchanges: Sequence[ExchangeSpec], first_step: int) -> None:
        """As the port says."""
        if self._is_denied:
            return
        try:
            await self._purge(exchanges, first_step)
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

    async def _purge(self, exchanges: Sequence[ExchangeSpec], first_step: int) -> None:
        log = KafkaStepsLog(self._settings, self._pipeline)
        try:
            await log.begin_at_step(first_step)
            begins = begins_of(await log.read_through(first_step), first_step)
        finally:
            await log.close()
        for exchange in exchanges:
            before = begins.get(exchange.name)
            if before and await self._is_there(exchange):
                await asyncio.to_thread(self._delete, exchange.topic, before)

    def _delete(self, topic: str, before: Mapping[int, int]) -> None:
        self._admin.delete_before(topic, before)

    @cached_property
    def _admin(self) -> TopicAdmin:
        return TopicAdmin(self._settings)

    async def _is_there(self, exchange: ExchangeSpec) -> bool:
        """Whether it is the topic that the steps were written to: offsets of another one mean other records."""
        rpc = KafkaRpc(self._settings)
        try:
            return topic_id_text((await rpc.topic(exchange.topic)).topic_id) == exchange.topic_id
        except TopicError:
            return False
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
