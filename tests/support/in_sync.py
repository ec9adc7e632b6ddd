"""Whether every replica of every partition of a cluster is in sync: then what any broker shows as an end is the end, and one
broker more may die without the last copy of anything."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

ASK_TIMEOUT_S = 20.0
LOOK_EVERY_S = 0.5


def out_of_sync(bootstrap_servers: str, brokers: int = 3) -> str:
    """A partition with a replica that is not in sync, or why nobody says so; '' once all are, of the internal topics too, and
    whoever is asked knows so many brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        known = admin.list_topics(timeout=ASK_TIMEOUT_S)
    except KafkaException as error:
        return str(error)
    if len(known.brokers) < brokers:
        return f"one of {brokers} brokers"
    for topic, one in known.topics.items():
        for part in one.partitions.values():
            if part.leader < 0 or len(part.isrs) < len(part.replicas):
                return f"{topic}-{part.id}"
    return ""


def await_in_sync(bootstrap_servers: str, timeout_s: float, brokers: int = 3) -> None:
    """Until all are. Raises TimeoutError naming a partition that is not."""
    deadline_s = time.monotonic() + timeout_s
    while lagging := out_of_sync(bootstrap_servers, brokers):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{lagging} is not there, or not in sync, after {timeout_s:.0f} s")
        time.sleep(LOOK_EVERY_S)
