"""Records that fill the state of `bench/layout/pipeline.py`, and then come all the time."""

from __future__ import annotations

import random
import threading
import time
from itertools import count

from confluent_kafka import KafkaException, Producer

PAYLOAD_BYTES = 500
"""Of each key, in the state. At random, so that nothing makes less of it."""
FLUSH_S = 120.0
MOST_QUEUED = 20_000


def keys_of(state_mb: float) -> int:
    """How many make about so much state."""
    return max(1_000, round(state_mb * 1e6 / PAYLOAD_BYTES))


class Load:
    """To one topic of so many partitions. Used by one thread, but for `stop`."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, keys: int, seed: int = 1) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 50,
                "queue.buffering.max.messages": 4 * MOST_QUEUED,
                "log_level": 3,
            }
        )
        self._topic, self._partitions, self._keys = topic, partitions, keys
        self._random = random.Random(seed)
        self._failures: list[object] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent = 0

    def fill(self) -> None:
        """One record of each key. Raises KafkaException unless all are acknowledged."""
        for number in range(self._keys):
            self._send(number)
        self._settle()

    def start(self, records_per_s: int) -> None:
        """From now on, in a thread of its own, so many records of one key after the other."""

        def send() -> None:
            began_s = time.monotonic()
            for number in count():
                wait_s = began_s + number / records_per_s - time.monotonic()
                if self._over.wait(max(0.0, wait_s)):
                    return
                self._send(number * 7_919 % self._keys)

        self._thread = threading.Thread(target=send, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Raises KafkaException unless all that was sent is acknowledged."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._settle()

    def _send(self, number: int) -> None:
        while len(self._producer) > MOST_QUEUED:
            self._producer.poll(0.01)
        value, place = self._random.randbytes(PAYLOAD_BYTES), self.sent % self._partitions
        self._producer.produce(self._topic, value, b"k%d" % number, place, on_delivery=self._delivered)
        self._producer.poll(0)
        self.sent += 1

    def _settle(self) -> None:
        left = self._producer.flush(FLUSH_S)
        if self._failures or left:
            raise KafkaException(
                self._failures[0] if self._failures else f"{left} records were not acknowledged"
            )

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(error)
