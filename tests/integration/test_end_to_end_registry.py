"""The page about schema registries as a user follows it: its own pipeline and settings, run, looked at, refused, and verified
when the registry is gone. Heavy: it starts Spark three times."""

from __future__ import annotations

import secrets
import struct
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.integration.spark.test_confluent import framed
from tests.support.processes import run_kcontrol
from tests.support.registry import serving
from tests.support.topics import create_topic

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1_500)]
PAGE = "docs/howto/schema-registry.md"
NARROW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "id", "type": "int"},
        {"name": "amount", "type": "float"},
        {"name": "note", "type": "string"},
    ],
}
"""What a producer writes who goes his own way."""


def test_the_page_is_followed_and_the_steps_are_run_again_without_the_registry(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    blocks: dict[str, str] = {}
    for block in blocks_of(PAGE):
        blocks.setdefault(block.language, block.text)
    of_page: dict[str, Any] = {}
    exec(compile(blocks["python"], PAGE, "exec"), of_page)
    names = [f"{stem}-{secrets.token_hex(3)}" for stem in ("orders", "paid")]
    for name in names:
        create_topic(settings, name, 1)
    text = blocks["python"].replace('topic="orders"', f'topic="{names[0]}"')
    (tmp_path / "paid.py").write_text(text.replace('topic="paid"', f'topic="{names[1]}"'))
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})

    with serving("kcontrol:secret") as registry:
        ids = [registry.add(f"{names[0]}-value", each) for each in (NARROW, of_page["ORDER"])]
        rows = [
            framed(ids[0], NARROW, {"id": 1, "customer": "a", "amount": 0.5, "note": "n"}),
            framed(ids[1], of_page["ORDER"], {"id": 2, "customer": "b", "amount": None}),
            framed(ids[1], of_page["ORDER"], {"id": 3, "customer": "c", "amount": 1.5}),
        ]
        for row in rows:
            producer.produce(names[0], row)
        assert producer.flush(30) == 0

        def command(*arguments: str, password: str = "secret", url: str = registry.url) -> Any:
            (tmp_path / "kcontrol.toml").write_text(
                f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{settings.prefix}"\n'
                f'[schema_registry]\nurl = "{url}"\ndeadline_ms = 2000\n'
                '[schema_registry.client]\n"basic.auth.user.info" = "kcontrol:${REGISTRY_PASSWORD}"\n'
            )
            env = {"XDG_DATA_HOME": str(tmp_path / "home"), "REGISTRY_PASSWORD": password}
            return run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=600)

        run = ("run", "paid.py", "--until-caught-up", "--master", "local[2]")
        done = command(*run)
        assert done.returncode == 0, done.stderr
        said = command("status", "paid").stdout
        expected = blocks["text"].replace("paid-value", f"{names[1]}-value")
        assert all(line in said for line in expected.splitlines()), said

    written = [
        (message.key(), message.value()) for message in read_topics(settings.bootstrap_servers, [names[1]])
    ]
    schema = registry.text(3)
    assert written == [
        (b"a", framed(3, schema, {"customer": "a", "id": 1, "amount": 0.5})),
        (b"c", framed(3, schema, {"customer": "c", "id": 3, "amount": 1.5})),
    ]
    assert struct.unpack(">bI", written[0][1][:5]) == (0, 3)
    verified = command("verify", "paid", "--master", "local[2]")
    assert verified.returncode == 0, verified.stdout + verified.stderr
