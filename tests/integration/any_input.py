"""A pipeline whose input is of any kind, its processes, and the server that its input comes from, which dies with SIGKILL."""

from __future__ import annotations

import json
import secrets
import signal
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.adapters.files.s3_client import asking, forget_client
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.spark.test_confluent import framed
from tests.support.following import until_status
from tests.support.ports import free_ports
from tests.support.processes import ROOT, KcontrolProcess, run_kcontrol
from tests.support.s3 import S3Server
from tests.support.topics import create_topic

FILE = ROOT / "tests" / "pipelines" / "any_input.py"
PATIENCE_S = 600.0
HEADER_BYTES = 5
"""Of Confluent's wire format: a zero and the id."""


class Numbers:
    """A pipeline of the numbers from 0 to `rows` - 1."""

    def __init__(
        self, settings: ClusterSettings, directory: Path, kind: str, rows: int, env: Mapping[str, str] = {}
    ) -> None:
        """kind: as ANY_INPUT has it."""
        self.settings, self.directory, self.kind, self.count = settings, directory, kind, rows
        self.name = f"any-{secrets.token_hex(3)}"
        for topic, partitions in (("rows", 2), ("sums", 2), ("lines", 1)):
            create_topic(settings, f"{self.name}-{topic}", partitions)
        self.env = {
            "ANY_PIPELINE": self.name,
            "ORDERS_PIPELINE": self.name,
            "ANY_INPUT": kind,
            "ANY_ROWS": str(rows),
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(directory / "home"),
            **env,
        }

    def node(self, crash_at: str = "") -> KcontrolProcess:
        """crash_at: see `tests.support.crashing`."""
        where = ["--work-dir", str(self.directory / "work"), "--master", "local[2]"]
        return self._process(crash_at, "node", str(FILE), *where)

    def coordinator(self, crash_at: str = "") -> KcontrolProcess:
        """crash_at: see `tests.support.crashing`."""
        return self._process(crash_at, "coordinator", "--instance", self.name)

    def _process(self, crash_at: str, *arguments: str) -> KcontrolProcess:
        module = "tests.support.crashing" if crash_at else "kcontrol.cli"
        log = self.directory / f"{arguments[0]}-{secrets.token_hex(2)}.log"
        env = {**self.env, "CRASH_AT": crash_at}
        return KcontrolProcess(*arguments, log=log, env=env, module=module, cwd=self.directory)

    def produce(self, schemas: Mapping[int, Any]) -> None:
        """All numbers into its topic, as Avro in Confluent's wire format, by these schemas in turn."""
        each = -(-self.count // len(schemas))
        self.send(
            framed(schema_id, schema, {"number": number})
            for at, (schema_id, schema) in enumerate(schemas.items())
            for number in range(at * each, min((at + 1) * each, self.count))
        )

    def send(self, values: Iterable[bytes]) -> None:
        """Into its topic."""
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for value in values:
            producer.produce(f"{self.name}-lines", value)
        assert producer.flush(PATIENCE_S) == 0

    def until_all_are_there(self) -> None:
        until_status(
            self.settings,
            self.name,
            lambda _: len(self._rows()) >= self.count,
            "all rows are committed",
            PATIENCE_S,
        )

    def check(self) -> None:
        """Each number is there once, the sums are those of all of them, and a replay gives the same."""
        rows = self._rows()
        assert rows == list(range(self.count))
        newest: dict[int, int] = {}
        for message in read_topics(self.settings.bootstrap_servers, [f"{self.name}-sums"]):
            row = json.loads(message.value() or b"")
            newest[row["rest"]] = max(row["sum"], newest.get(row["rest"], 0))
        assert newest == {rest: sum(number for number in rows if number % 7 == rest) for rest in range(7)}
        ran = self._command("verify", str(FILE))
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def _rows(self) -> list[int]:
        messages = read_topics(self.settings.bootstrap_servers, [f"{self.name}-rows"])
        values = [each.value() or b"" for each in messages]
        if self.kind == "confluent-json":
            values = [value[HEADER_BYTES:] for value in values]
        return sorted(json.loads(value)["number"] for value in values)

    def _command(self, *arguments: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=self.env, cwd=self.directory, timeout_s=PATIENCE_S)


class DyingServer:
    """A server of a test as a process of its own, which ends itself at a chosen one of its answers."""

    def __init__(self, module: str, file: Path) -> None:
        [self.port] = free_ports(1)
        self._module, self._file = module, file
        self.url = f"http://127.0.0.1:{self.port}"

    def process(self, dies_at: int = 0) -> KcontrolProcess:
        """dies_at: the number of that answer; 0: none."""
        log = self._file.with_name(f"server-{self.port}.log")
        return KcontrolProcess(str(self.port), str(self._file), str(dies_at), log=log, module=self._module)

    def dies(self, dies_at: int) -> None:
        """One that is started now, and has ended itself."""
        with self.process(dies_at) as server:
            assert server.wait(PATIENCE_S) == -signal.SIGKILL, server.text()


def lines(rows: int) -> bytes:
    """NDJSON of these numbers."""
    return "".join(f'{{"number": {at}}}\n' for at in range(rows)).encode()


def protobuf_numbers(schema_ids: Sequence[int], rows: int) -> Iterator[bytes]:
    """These numbers as the first field of the first message, in Confluent's wire format, by these schemas in turn."""
    each = -(-rows // len(schema_ids))
    for number in range(rows):
        yield struct.pack(">bI", 0, schema_ids[number // each]) + b"\x00\x08" + _varint(number)


def _varint(number: int) -> bytes:
    """As Protobuf has it."""
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


@contextmanager
def object_store(directory: Path, data: bytes) -> Iterator[tuple[S3Server, str]]:
    """A server with an object, and its address."""
    with S3Server(directory, "spool") as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.for_aws_clients.items():
            patch.setenv(name, value)
        forget_client()
        with asking("the test") as client:
            client.put_object(Bucket="spool", Key="rows.ndjson", Body=data)
        try:
            yield store, "s3://spool/rows.ndjson"
        finally:
            forget_client()
