"""What feeds a topic from something that keeps a message until it is acknowledged, as a member of a region: a message is
acknowledged once a cut of the region has it, and so all that it leads to is in one moment's outputs.

Each message is sent once, whatever dies: a batch is a Kafka transaction, whose id fences whoever sent before; a message carries
its number as its key, so whoever begins tells from the topic what is in it. The topic has one partition.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

import kcontrol

PARTITION, TIMEOUT_S, MOST = 0, 30.0, 1_000


class Source(Protocol):
    """What keeps messages. Numbers grow; a message has the same one for ever."""

    def after(self, number: int, most: int) -> Sequence[tuple[int, str]]:
        """The next ones, by number."""
        ...

    def acknowledge(self, number: int) -> None:
        """This one and all before it are needed no more."""
        ...


class Bridge:
    """name: nobody else sends under it."""

    def __init__(self, source: Source, topic: str, brokers: str, name: str) -> None:
        self._source, self._topic, self._brokers = source, topic, brokers
        self._producer = Producer({"bootstrap.servers": brokers, "transactional.id": name})
        self._producer.init_transactions(TIMEOUT_S)
        self.offsets = self._sent()
        """By message that is not known to be acknowledged, its offset."""
        self._last = max(self.offsets, default=0)

    def _sent(self) -> dict[int, int]:
        """All that is in the topic, for the example's sake; keep the newest numbers elsewhere, where that is long."""
        options = {"group.id": "unused", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self._brokers, **options})
        found: dict[int, int] = {}
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(self._topic, PARTITION), TIMEOUT_S)
            consumer.assign([TopicPartition(self._topic, PARTITION, low)])
            while True:
                message = consumer.poll(TIMEOUT_S)
                if message is None:
                    raise RuntimeError(f"topic {self._topic!r} can't be read")
                error = message.error()
                if error is None:
                    found[int(message.key() or b"0")] = message.offset() or 0
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
        finally:
            consumer.close()

    def send(self) -> int:
        """What is new; how many."""
        messages = self._source.after(self._last, MOST)
        if not messages:
            return 0
        sent: dict[int, int] = {}

        def took(_: object, message: Message) -> None:
            sent[int(message.key() or b"0")] = message.offset() or 0

        self._producer.begin_transaction()
        for number, body in messages:
            key, value = str(number).encode(), body.encode()
            self._producer.produce(self._topic, value, key, PARTITION, on_delivery=took)
        self._producer.commit_transaction(TIMEOUT_S)
        self.offsets |= sent
        self._last = messages[-1][0]
        return len(messages)

    def acknowledge(self, cut: Mapping[tuple[str, int], int]) -> None:
        """What lies before the cut is in it for ever: a rollback of the region reads it from the topic."""
        end = cut.get((self._topic, PARTITION), 0)
        done = [number for number, offset in tuple(self.offsets.items()) if offset < end]
        if done:
            self._source.acknowledge(max(done))
            for number in done:
                del self.offsets[number]

    def _feed(self, stop: Event) -> None:
        try:
            while not stop.is_set():
                if not self.send():
                    stop.wait(0.1)
        except Exception as error:  # noqa: BLE001 - the process ends with it
            sys.stderr.write(f"nothing more is sent: {error}\n")
            _thread.interrupt_main()

    def run(self, region: str, member: str, server: str) -> None:
        """Until Ctrl-C."""
        stop = Event()
        feeding = Thread(target=self._feed, args=(stop,))
        feeding.start()
        try:
            # Hints make it quicker, and nothing else: an empty address, and it only polls.
            hint = os.environ.get("BRIDGE_HINT", "127.0.0.1:0")
            with kcontrol.RegionMember(region, member, server, hint=hint) as told:
                for order in told:
                    if order.is_drain:
                        # What was sent is in Kafka: there is nothing else to save.
                        told.checkpoint_done(order)
                    elif order.is_reset:
                        # A reset takes no step back, and what was sent stays in the topic.
                        told.reset_done(order)
                    self.acknowledge(told.cut(order.last_completed))
        finally:
            stop.set()
            feeding.join()
