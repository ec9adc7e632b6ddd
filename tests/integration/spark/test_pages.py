"""Pipelines of how-to pages, word for word but for the names of topics, run by an engine and run again: values that a schema
registry describes, and lines behind a URL."""

from __future__ import annotations

import base64
import json
import re
import runpy
import secrets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from kcontrol.definition.pipeline import Pipeline
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.integration.spark.conftest import Play
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_confluent import framed, run_again, with_book
from tests.support.files_server import serving_files
from tests.support.proto_files import serialized
from tests.support.registry import Registry, serving

REGISTRY_PAGE, FILES_PAGE = "docs/howto/schema-registry.md", "docs/howto/files.md"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as found:
        yield found


class Page:
    """Loads what a page has."""

    def __init__(self, topic_factory: TopicFactory, directory: Path) -> None:
        self._new_topic, self._directory = topic_factory, directory

    def __call__(self, page: str, title: str, url: str = "") -> tuple[Pipeline, dict[str, Any]]:
        """A program's pipeline, with names of its own, and all that it has defined. url: in place of the page's."""
        [text] = [block.text for block in blocks_of(page) if block.title == title]
        text = re.sub(r'topic="([^"]+)"', lambda found: f'topic="{self._new_topic(found[1])}"', text)
        text, named = re.subn(r'(Pipeline\(\s*"[^"]+)"', rf'\g<1>-{secrets.token_hex(3)}"', text)
        assert named == 1
        file = self._directory / title
        file.write_text(re.sub(r"https://[^\"]+", url, text) if url else text)
        defined = runpy.run_path(str(file))
        return defined["pipeline"], defined


@pytest.fixture
def of_page(topic_factory: TopicFactory, tmp_path: Path) -> Page:
    return Page(topic_factory, tmp_path)


def written_by(stepper: Stepper, registry: Registry, output: str) -> int:
    """The id of the schema of an output's values."""
    [found] = registry.subjects()[f"{stepper.pipeline.output(output).topic}-value"]
    return found


def test_messages_of_protobuf_come_in_and_go_out(play: Play, of_page: Page, registry: Registry) -> None:
    pipeline, defined = of_page(REGISTRY_PAGE, "refunds.py")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized(defined["ORDER"]))))
    order: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))

    async def scenario(stepper: Stepper) -> None:
        known = registry.add("orders-value", defined["ORDER"], "PROTOBUF")
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        refund = order(id=2, customer="b", amount=-1.5)
        refund.at.FromSeconds(1_700_000_000)
        orders = [order(id=1, customer="a", amount=2.0), refund, order(id=3, customer="c")]
        head = struct.pack(">bI", 0, known) + b"\x00"
        stepper.produce("orders", [(None, head + each.SerializeToString()) for each in orders])
        await stepper.step()
        [row] = stepper.committed("refunds")
        assert (row.key, row.value and row.value[:6]) == (
            b"b",
            struct.pack(">bI", 0, written_by(stepper, registry, "refunds")) + b"\x00",
        )
        assert order.FromString(row.value and row.value[6:]) == refund
        await run_again(stepper, registry, 1)

    play(pipeline, scenario)


def test_changes_that_debezium_has_caught_become_a_table(
    play: Play, of_page: Page, registry: Registry
) -> None:
    pipeline, defined = of_page(REGISTRY_PAGE, "customers.py")

    async def scenario(stepper: Stepper) -> None:
        known = registry.add("customers-value", defined["ENVELOPE"])
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        ann, bob = {"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}
        said = [("c", None, ann), ("c", None, bob), ("u", bob, {**bob, "name": "rob"}), ("d", ann, None)]
        changes = [
            framed(known, defined["ENVELOPE"], {"op": op, "before": before, "after": after})
            for op, before, after in said
        ]
        stepper.produce("changes", [(b"key", each) for each in [*changes, None]])
        await stepper.step()
        written = written_by(stepper, registry, "customers")
        rob = framed(written, registry.text(written), {"id": 2, "name": "rob"})
        found = [(row.key, row.value) for row in stepper.committed("customers")]
        assert sorted(found) == [(b"1", None), (b"2", rob)]
        await run_again(stepper, registry, 1)

    play(pipeline, scenario)


def test_json_behind_an_id_comes_in_and_goes_out(play: Play, of_page: Page, registry: Registry) -> None:
    pipeline, _ = of_page(REGISTRY_PAGE, "reviews.py")

    async def scenario(stepper: Stepper) -> None:
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        reviews = [{"id": 1, "stars": 5, "text": "good"}, {"id": 2, "stars": 1, "text": "late"}]
        head = struct.pack(">bI", 0, 77)
        stepper.produce("reviews", [(None, head + json.dumps(each).encode()) for each in reviews])
        await stepper.step()
        [row] = stepper.committed("complaints")
        head = struct.pack(">bI", 0, written_by(stepper, registry, "complaints"))
        assert (row.key, row.value) == (b"2", head + b'{"id":2,"text":"late"}')
        await run_again(stepper, registry, 1)

    play(pipeline, scenario)


def test_lines_of_csv_behind_a_url(play: Play, of_page: Page) -> None:
    data = b'currency,rate\nCHF,1.25\n"EUR",1.5\n'
    with serving_files() as server:
        pipeline, _ = of_page(FILES_PAGE, "rates.py", server.put("/rates.csv", data, '"v1"'))

        async def scenario(stepper: Stepper) -> None:
            await stepper.engine.open(0, create=True)
            await stepper.step({("lines", 0): len(data)})
            found = [(row.key, json.loads(row.value or b"")) for row in stepper.committed("rates")]
            assert sorted(found) == [
                (b"CHF", {"currency": "CHF", "rate": 1.25}),
                (b"EUR", {"currency": "EUR", "rate": 1.5}),
            ]
            await stepper.engine.open(0, create=True)
            assert (await stepper.replay(1)).inputs == stepper.log[1].inputs

        play(pipeline, scenario)
