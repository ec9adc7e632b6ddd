"""Topics and input for examples/departures.py.

`python examples/departures_feed.py topics kafka:9092` makes the topics that are missing; `send` in place of
`topics` sends departures until it is told to end.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS = ("departures", "carriers", "late")
PARTITIONS = 6
"""Of each: keys on several nodes need as many partitions everywhere."""
CARRIERS = ("AA", "AS", "B6", "DL", "EV", "F9", "HA", "MQ", "NK", "UA", "VX", "WN")
ORIGINS = ("EWR", "JFK", "LGA")
TIMEOUT_S = 30
BATCHES_PER_S = 10


def make_topics(bootstrap_servers: str, replication: int) -> list[str]:
    """Make those that are missing, and return their names. Raises KafkaException: one can't be made."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made = []
    for name, future in admin.create_topics(
        [NewTopic(name, PARTITIONS, replication) for name in TOPICS]
    ).items():
        try:
            future.result(TIMEOUT_S)
            made.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return made


def departure(dice: random.Random) -> dict[str, Any]:
    """One record; most leave on time."""
    delay_min = max(0, round(dice.gauss(4, 15)))
    return {"carrier": dice.choice(CARRIERS), "origin": dice.choice(ORIGINS), "delay_min": delay_min}


def send(bootstrap_servers: str, per_second: int, seed: int, ended: threading.Event) -> int:
    """Send until `ended`; returns how many were acknowledged. Raises KafkaException: some were not."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
        }
    )
    failures: list[object] = []

    def keep_failure(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    dice, sent = random.Random(seed), 0
    while not ended.wait(1 / BATCHES_PER_S) and not failures:
        for _ in range(max(1, per_second // BATCHES_PER_S)):
            record = departure(dice)
            producer.produce(
                "departures",
                json.dumps(record),
                key=record["carrier"],
                on_delivery=keep_failure,
            )
            sent += 1
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    if failures or left:
        raise KafkaException(
            failures[0] if failures else f"{left} departures were not acknowledged in {TIMEOUT_S} s"
        )
    return sent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("topics", "send"))
    parser.add_argument("bootstrap_servers", metavar="HOST:PORT,...")
    parser.add_argument("--replication", type=int, default=1, help="of the topics that are made")
    parser.add_argument("--per-second", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.what == "topics":
        print(
            "made: "
            f"{', '.join(make_topics(given.bootstrap_servers, given.replication)) or 'nothing, all are there'}"
        )
        return 0
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    print(f"{send(given.bootstrap_servers, given.per_second, given.seed, ended):,} departures were sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
