"""Data, oracle and names for `tests/pipelines/orders.py`.

The oracle knows nothing of kcontrol's code. It takes the divisions from the log of steps (as `kcontrol steps
--json` prints them), reads the inputs itself, computes what each step must have written, and compares with
what a read_committed consumer finds in the outputs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus
from tests.support.following import until_read, until_status
from tests.support.patience import HANG_S
from tests.support.processes import ROOT, run_kcontrol

PIPELINE_FILE = ROOT / "tests" / "pipelines" / "orders.py"
PARTITIONS = {"orders": 2, "payments": 2, "totals": 3, "copies": 2}
CUSTOMERS = 7
TIMEOUT_S = HANG_S


@dataclass
class Orders:
    """One pipeline of its own name, with its topics, on the broker at `servers`."""

    servers: str
    name: str
    produced: Counter[str] = field(default_factory=Counter)
    sent: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    """By topic's stem, partition and offset: what the broker has acknowledged."""
    expired: set[str] = field(default_factory=set)
    """Stems of topics that can't be read from the beginning any more."""

    def __post_init__(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        topics = [NewTopic(self.topic(stem), num_partitions=count) for stem, count in PARTITIONS.items()]
        for future in admin.create_topics(topics).values():
            future.result(TIMEOUT_S)

    def topic(self, stem: str) -> str:
        return f"{self.name}-{stem}"

    @property
    def env(self) -> dict[str, str]:
        return {"ORDERS_PIPELINE": self.name, "KCONTROL_BOOTSTRAP_SERVERS": self.servers}

    def produce(self, count: int, payment_bytes: int = 0) -> None:
        """`count` orders and as many payments (of at least so many bytes), numbered on from the last call."""
        producer = self._producer()
        for _ in range(count):
            number = self.produced["orders"]
            order = {"id": f"o{number}", "customer": f"c{number % CUSTOMERS}", "amount": number * 13 % 101}
            self._send(producer, "orders", json.dumps(order), number % PARTITIONS["orders"])
            payment = f"payment {self.produced['payments']} ".ljust(payment_bytes, "x")
            self._send(producer, "payments", payment, number % PARTITIONS["payments"])
        assert producer.flush(TIMEOUT_S) == 0

    def pay(self, count: int, partition: int) -> None:
        """`count` payments more, all into one partition."""
        producer = self._producer()
        for _ in range(count):
            self._send(producer, "payments", f"payment {self.produced['payments']} ", partition)
        assert producer.flush(TIMEOUT_S) == 0

    def _producer(self) -> Producer:
        """Idempotent, or a batch whose answer is lost would be there twice."""
        quick = {"socket.timeout.ms": 3_000, "socket.connection.setup.timeout.ms": 2_000, "log_level": 0}
        return Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 1, "enable.idempotence": True, **quick}
        )

    def _send(self, producer: Producer, stem: str, value: str, partition: int) -> None:
        def acknowledged(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            self.sent[stem, partition, message.offset() or 0] = value.encode()

        producer.produce(self.topic(stem), value, partition=partition, on_delivery=acknowledged)
        self.produced[stem] += 1

    def widen(self, stem: str, partitions: int) -> None:
        """Add partitions to a topic, so that it has so many."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        asked = admin.create_partitions([NewPartitions(self.topic(stem), partitions)])
        asked[self.topic(stem)].result(TIMEOUT_S)

    def limit(self, stem: str, max_message_bytes: int) -> None:
        """Change how large a record batch the topic takes."""
        entry = ConfigEntry(
            "max.message.bytes", str(max_message_bytes), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, self.topic(stem), incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def expire(self, stem: str, partition: int) -> None:
        """Delete all that a partition holds now, as retention would."""
        where = TopicPartition(self.topic(stem), partition, OFFSET_END)
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.delete_records([where])[where].result(TIMEOUT_S)
        self.expired.add(stem)

    def steps(self) -> list[dict[str, Any]]:
        """All boundaries, as the command line prints them."""
        result = run_kcontrol("steps", self.name, "--json", env=self.env)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def status(self) -> dict[str, Any]:
        result = run_kcontrol("status", self.name, "--json", env=self.env)
        assert result.returncode == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def until_status(
        self, condition: Callable[[PipelineStatus], object], what: str, timeout_s: float
    ) -> PipelineStatus:
        """Wait until the status is as wanted."""
        return until_status(self._settings, self.name, condition, what, timeout_s)

    def until_done(self, what: str, timeout_s: float) -> None:
        """Wait until all that was produced is committed, or was skipped."""
        self.until_read(self.produced, what, timeout_s)

    def until_read(self, records: Mapping[str, int], what: str, timeout_s: float) -> None:
        """Wait until exactly so many records of these inputs are in committed steps, or were skipped."""
        until_read(
            self._settings,
            self.name,
            lambda read: all(read[name] == count for name, count in records.items()),
            what,
            timeout_s,
            lambda: str(self.status()),
        )

    @property
    def _settings(self) -> ClusterSettings:
        return ClusterSettings(bootstrap_servers=self.servers)

    def messages(self, stem: str) -> Iterator[Message]:
        """All that a read_committed consumer finds in a topic."""
        return read_topics(self.servers, [self.topic(stem)])

    def check(self) -> list[dict[str, Any]]:
        """The oracle: every record in exactly one step or recorded skip, steps contiguous, outputs
        exactly right. Returns the steps."""
        steps = self.steps()
        assert [boundary["step"] for boundary in steps] == list(range(1, len(steps) + 1))
        self._check_divisions(steps)
        expected_totals, expected_copies = self._expected(steps)
        assert _by_step(self.messages("totals"), with_key=True) == expected_totals
        assert _by_step(self.messages("copies"), with_key=False) == expected_copies
        return steps

    def _check_divisions(self, steps: list[dict[str, Any]]) -> None:
        reached: dict[tuple[str, int], int] = defaultdict(int)
        records: Counter[str] = Counter()
        for boundary in steps:
            for skipped in boundary["skipped_ranges"]:
                key = (skipped["input"], skipped["partition"])
                assert skipped["from"] == reached[key] < skipped["to"], f"step {boundary['step']}: {skipped}"
                reached[key] = skipped["to"]
                records[skipped["input"]] += skipped["to"] - skipped["from"]
            for piece in boundary["inputs"]:
                key = (piece["input"], piece["partition"])
                assert piece["from"] == reached[key], f"step {boundary['step']}: gap or overlap in {key}"
                reached[key] = piece["to"]
                records[piece["input"]] += piece["records"]
                paused = piece["input"] in boundary["paused_inputs"]
                assert not (paused and piece["to"] > piece["from"]), (
                    f"step {boundary['step']}: {piece} of a paused input"
                )
        assert records == self.produced

    def _input(self, stem: str) -> dict[tuple[int, int], bytes]:
        """By partition and offset: what is in an input topic, or was before it expired."""
        if stem in self.expired:
            return {
                (partition, offset): value
                for (sent, partition, offset), value in self.sent.items()
                if sent == stem
            }
        return {(m.partition() or 0, m.offset() or 0): _bytes(m.value()) for m in self.messages(stem)}

    def _expected(
        self, steps: list[dict[str, Any]]
    ) -> tuple[dict[int, Counter[Any]], dict[int, Counter[Any]]]:
        orders = {place: json.loads(value) for place, value in self._input("orders").items()}
        payments = self._input("payments")
        sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        totals: dict[int, Counter[Any]] = {}
        copies: dict[int, Counter[Any]] = {}
        for boundary in steps:
            touched = set()
            step_copies: Counter[Any] = Counter()
            for piece in boundary["inputs"]:
                for offset in range(piece["from"], piece["to"]):
                    where = (piece["partition"], offset)
                    if piece["input"] == "orders" and where in orders:
                        order = orders[where]
                        count, amount = sums[order["customer"]]
                        sums[order["customer"]] = (count + 1, amount + order["amount"])
                        touched.add(order["customer"])
                    elif piece["input"] == "payments" and where in payments:
                        step_copies[payments[where]] += 1
            rows = Counter((customer, sums[customer]) for customer in touched)
            totals |= {boundary["step"]: rows} if rows else {}
            copies |= {boundary["step"]: step_copies} if step_copies else {}
        return totals, copies


def _by_step(messages: Iterator[Message], with_key: bool) -> dict[int, Counter[Any]]:
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    for message in messages:
        headers = dict(message.headers() or [])
        step = int(headers["step"])
        if with_key:
            value = json.loads(message.value())
            found[step][_text(message.key()), (value["orders"], value["amount"])] += 1
        else:
            found[step][message.value()] += 1
    return dict(found)


def _text(key: bytes | str | None) -> str | None:
    return key.decode() if isinstance(key, bytes) else key


def _bytes(value: bytes | str | None) -> bytes:
    assert isinstance(value, bytes)
    return value


def data_dir(tmp_path: Path) -> str:
    """Where `kcontrol run` keeps everything in a test."""
    return str(tmp_path / "data")
