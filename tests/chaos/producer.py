"""Feeds the inputs in random bursts: plain, in committed and in aborted transactions,
through every fault of the broker.

What it fails to send is not sent again: the oracle goes by what is in the topics, so a lost
burst is no error, only less work.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections import Counter
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.chaos.names import EXCHANGE, INPUTS, NODES

USERS = 40
MAX_BURST = 150
MAX_PAUSE_S = 0.4
TRANSACTION_TIMEOUT_S = 10.0
MESSAGE_TIMEOUT_MS = 9_000
"""librdkafka wants it to be no longer than the transaction's."""
TRANSACTIONAL_SHARE, ABORTED_SHARE = 0.3, 0.4
"""Of the bursts, those in transactions; of these, those that are aborted."""


class Feeder:
    """A thread that produces until `stop`. `done` counts bursts by how they ended. prefix: of the topics' names."""

    def __init__(self, bootstrap_servers: str, seed: int, prefix: str = "") -> None:
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._random = random.Random(f"feeder-{seed}{prefix}")
        self._number = 0
        self._over = threading.Event()
        self._plain = self._producer({})
        self._transactional: Producer | None = None
        self.done: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more bursts; what is on its way is delivered."""
        self._over.set()
        self._thread.join()
        self._plain.flush(TRANSACTION_TIMEOUT_S)

    def _producer(self, more: dict[str, Any]) -> Producer:
        settings = {
            "bootstrap.servers": self._bootstrap_servers,
            "linger.ms": 1,
            "partitioner": "murmur2_random",
            "message.timeout.ms": MESSAGE_TIMEOUT_MS,
            "log_level": 0,
        }
        return Producer({**settings, **more})

    def _run(self) -> None:
        while not self._over.wait(self._random.uniform(0.0, MAX_PAUSE_S)):
            transactional = self._random.random() < TRANSACTIONAL_SHARE
            try:
                if transactional:
                    self._transaction()
                else:
                    self._burst(self._plain)
                    self._plain.poll(0)
                    self.done["plain"] += 1
            except (KafkaException, BufferError):
                # The broker is away, or the transaction was fenced or timed out: the next
                # one begins with a new producer.
                self._transactional = None
                self.done["failed"] += 1

    def _transaction(self) -> None:
        if self._transactional is None:
            # A name of its own: it need not wait for one that its predecessor left open.
            name = f"feeder-{uuid.UUID(int=self._random.getrandbits(128))}"
            self._transactional = self._producer(
                {"transactional.id": name, "transaction.timeout.ms": round(TRANSACTION_TIMEOUT_S * 1_000)}
            )
            self._transactional.init_transactions(TRANSACTION_TIMEOUT_S)
        aborted = self._random.random() < ABORTED_SHARE
        self._transactional.begin_transaction()
        self._burst(self._transactional)
        if aborted:
            self._transactional.flush(TRANSACTION_TIMEOUT_S)
            self._transactional.abort_transaction(TRANSACTION_TIMEOUT_S)
        else:
            self._transactional.commit_transaction(TRANSACTION_TIMEOUT_S)
        self.done["aborted" if aborted else "committed"] += 1

    def _burst(self, producer: Producer) -> None:
        for _ in range(self._random.randint(1, MAX_BURST)):
            user = f"user-{self._random.randrange(USERS)}"
            of = self._random.choice(list(INPUTS))
            topic = self._prefix + of
            if of == "orders":
                order = {"id": self._number, "user": user, "amount": self._random.randrange(100)}
                where = {"partition": self._random.randrange(INPUTS[of])} if EXCHANGE else {}
                producer.produce(topic, json.dumps(order), key=user, **where)
            elif NODES == 1 or EXCHANGE:
                producer.produce(topic, b"", key=user, partition=self._random.randrange(INPUTS[of]))
            else:
                producer.produce(topic, b"", key=user)
            self._number += 1
