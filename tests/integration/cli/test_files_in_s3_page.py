"""The part of docs/howto/files.md on S3: its pipeline and its commands, word for word, on a real S3 server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.files.s3_client import asking, forget_client
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.support.processes import run_kcontrol
from tests.support.s3 import S3Server

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

PAGE = "docs/howto/files.md"
PATIENCE_S = 400.0
OBJECTS, LINES, CUSTOMERS = 3, 4_000, 40


def _put(number: int, data: bytes) -> None:
    with asking("the test") as client:
        client.put_object(Bucket="spool", Key=f"orders/part-{number}.ndjson", Body=data)


def test_the_page_comes_true(
    settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = blocks_of(PAGE)
    [program] = [block.text for block in blocks if block.title == "archive.py"]
    (tmp_path / "archive.py").write_text(program)
    [commands] = [block for block in blocks if block.argument.endswith("test_files_in_s3_page.py")]
    with S3Server(tmp_path / "store", "spool") as store:
        for name, value in store.for_aws_clients.items():
            monkeypatch.setenv(name, value)
        forget_client()
        for number in range(OBJECTS):
            lines = [json.dumps({"customer": f"c{at % CUSTOMERS}", "amount": at}) for at in range(LINES)]
            _put(number, "\n".join(lines).encode())
        env = {
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(tmp_path / "home"),
            **store.for_aws_clients,
        }
        for line in commands.text.strip().splitlines():
            program_name, *arguments = shlex.split(line)
            assert program_name == "kcontrol"
            ran = run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert store.environment["AWS_SECRET_ACCESS_KEY"] not in ran.stdout + ran.stderr
        newest = {}
        for message in read_topics(settings.bootstrap_servers, ["archive-totals"]):
            newest[message.key()] = json.loads(message.value())
        assert {row["customer"]: row["sum"] for row in newest.values()} == {
            f"c{customer}": OBJECTS * sum(range(customer, LINES, CUSTOMERS)) for customer in range(CUSTOMERS)
        }
        _put(1, b"")
        broken = run_kcontrol("verify", "archive.py", env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
        assert broken.returncode != 0
        assert "s3://spool/orders" in broken.stdout + broken.stderr
    forget_client()
