"""Keyed rows that nodes have sent to this one, written to the partitions of outputs that it owns: the end of a step whose
queries exchange rows, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.deliver import DeliveredExchange, DeliveredRows, ExchangeDelivery, Keep
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.adapters.spark.sink.spool import Spool, SpoolFile
from kcontrol.adapters.spark.source.counting import sent_to_node
from kcontrol.core.failures import kind_of, without_step
from kcontrol.core.model import ExchangeSpec
from kcontrol.settings.cluster import ClusterSettings


class Deliveries:
    """Of one node. schemas: by exchange, of the rows that are sent through it. spool: takes the rows of a replay too."""

    def __init__(
        self,
        settings: ClusterSettings,
        work: NodeWork,
        schemas: Mapping[str, pa.Schema],
        spool: Spool | None = None,
    ) -> None:
        self._settings, self._work, self._spool = settings, work, spool
        self.schemas = schemas
        self._under_way: set[ExchangeDelivery] = set()
        """Whoever has found something to deliver."""

    def begin(self, attempt: AttemptLedger, stage: int | None) -> None:
        """Deliver what is delivered in this stage; None: in any. The attempt waits for it as for a query."""
        for exchange in self._work.delivered(stage):
            name = f"kcontrol-deliver-{exchange.delivers}"
            threading.Thread(target=self._deliver, args=(attempt, exchange), name=name, daemon=True).start()

    def cancel(self) -> None:
        """Write nothing more of what is under way, from any thread."""
        for delivery in tuple(self._under_way):
            delivery.abort()

    def _deliver(self, attempt: AttemptLedger, exchange: ExchangeSpec) -> None:
        step = attempt.work.step
        try:
            found = self._delivered(attempt, exchange)
            attempt.exchanging.report_taken(exchange.name, exchange.name, 0, found.records)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the attempt and says why
            what = without_step(step, str(error) or type(error).__name__)
            attempt.fail(kind_of(error), f"step {step}, delivering output {exchange.delivers!r}: {what}")
            return
        attempt.deliver(exchange.name, QueryResult(found.slices, (), watermark_moved=False))

    def _delivered(self, attempt: AttemptLedger, exchange: ExchangeSpec) -> DeliveredRows:
        runs = attempt.exchanging.ready(exchange.name)
        if not runs:
            return DeliveredRows((), ())
        work, replay = attempt.work, attempt.expected is not None
        producer = (work.token.producer_id, work.token.producer_epoch)
        sent = sent_to_node(attempt)
        what = DeliveredExchange(
            exchange.name, exchange.topic, exchange.topic_id, self.schemas[exchange.name]
        )
        where = [(run.partition, run.from_, run.to) for run in runs]
        transaction = None if replay else StepTransaction(work.transactional_id, *producer, work.step)
        target = self._work.target(exchange.delivers, attempt)
        delivery = ExchangeDelivery(self._settings, what, sent, target, transaction, work.now_ms)
        self._under_way.add(delivery)
        try:
            with self._kept(attempt, exchange) as keep:
                return delivery.run(where, keep)
        finally:
            self._under_way.discard(delivery)

    @contextmanager
    def _kept(self, attempt: AttemptLedger, exchange: ExchangeSpec) -> Iterator[Keep | None]:
        """Where the rows of a replay go too, if they are wanted."""
        replay, spool = attempt.expected is not None, self._spool
        place = spool.place(attempt.work.step) if replay and spool is not None else None
        if place is None:
            yield None
            return
        file = SpoolFile(place, exchange.delivers, 0)
        try:
            yield lambda rows, partitions: file.write(rows, np.asarray(partitions))
        finally:
            file.close()
