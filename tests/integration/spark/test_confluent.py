"""Values in Confluent's wire format, with a real broker, real Spark and a registry over HTTP: in by whatever schema, out by
a registered one, and again without the registry."""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from pyspark.sql import functions as F

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.apps.schema_book import SchemaBook
from kcontrol.core.model import FailureKind, StepBoundary
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.proto_files import serialized
from tests.support.registry import Registry, serving

COUNTRY = {"type": "enum", "name": "Country", "symbols": ["CH", "NL"]}
FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": "string"},
        {"name": "country", "type": COUNTRY},
    ],
}
"""What a producer writes: a narrower number, a field that nobody reads, another order."""
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "What the pipeline reads.",
    "fields": [
        {"name": "country", "type": COUNTRY},
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "double"], "default": None},
    ],
}
LAST = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],  # type: ignore[misc]
}
"""What a producer writes that is ahead."""
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving("kcontrol:secret") as found:
        found.skip_ids(6)
        yield found


def framed(schema_id: int, schema: Any, row: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
    return b"\x00" + struct.pack(">I", schema_id) + body.getvalue()


async def with_book(stepper: Stepper, registry: Registry, *, writes: bool = True) -> SchemaBook:
    """As a process that has just started: it knows what the log has."""
    settings = stepper.settings.model_copy(update={"schema_registry": registry.settings})
    ensure_topics(settings)
    stepper.host.schemas = book = SchemaBook(settings, stepper.pipeline.name, writes=writes)
    if writes:
        await asyncio.to_thread(book.prepare, stepper.bound.schemas)
    return book


async def run_again(stepper: Stepper, registry: Registry, *steps: int) -> None:
    """By a process that asks the log alone; raises if anything differs."""
    registry.broken = 503
    await with_book(stepper, registry, writes=False)
    await stepper.engine.open(0, create=True)
    for step in steps:
        result = await stepper.replay(step)
        assert result.skipped == stepper.log[step].skipped


def numbers(boundary: StepBoundary) -> dict[str, int]:
    return {
        **{f"skipped {each.input}": each.records for each in boundary.skipped},
        **{each.output: each.records for each in boundary.outputs},
    }


def copied(orders: Any) -> Any:
    rows = orders.select("id", F.col("country"), "amount")
    return {"out": rows, "derived": rows.select("id")}


SKIPPING = {"value_format": "confluent-avro", "schema": ORDER, "on_bad_record": "skip"}
OUTPUTS = {
    "out": (1, {"value_format": "confluent-avro", "schema": ORDER, "key": "id", "subject": "record"}),
    "derived": (1, {"value_format": "confluent-avro"}),
}


def test_values_of_several_schemas_come_in_and_go_out_by_id_and_again_without_the_registry(
    run_scenario: RunScenario, registry: Registry
) -> None:
    async def scenario(stepper: Stepper) -> None:
        ids = [registry.add("orders-value", each) for each in (FIRST, ORDER, LAST)]
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        rows = [
            framed(ids[0], FIRST, {"id": 1, "note": "n", "country": "CH"}),
            framed(ids[1], ORDER, {"id": 2, "country": "NL", "amount": 0.5}),
            framed(ids[2], LAST, {"id": 3, "country": "NL", "amount": None, "at": 5}),
        ]
        stepper.produce("orders", [(None, row) for row in rows])
        boundary = await stepper.step()
        assert numbers(boundary) == {"skipped orders": 0, "out": 3, "derived": 3}
        topic = stepper.pipeline.output("derived").topic
        assert registry.subjects()["shop.Order"] == [ids[1]]
        (derived,) = registry.subjects()[f"{topic}-value"]
        assert [(row.key, row.value) for row in stepper.committed("out")] == [
            (b"1", framed(ids[1], ORDER, {"id": 1, "country": "CH", "amount": None})),
            (b"2", rows[1]),
            (b"3", framed(ids[1], ORDER, {"id": 3, "country": "NL", "amount": None})),
        ]
        schema = registry.text(derived)
        assert stepper.committed("derived")[2].value == framed(derived, schema, {"id": 3})
        await run_again(stepper, registry, 1)

    run_scenario([copied], scenario, {"orders": (1, SKIPPING)}, OUTPUTS)


def test_an_id_that_was_unknown_in_a_step_stays_so_when_the_step_is_run_again(
    run_scenario: RunScenario, registry: Registry
) -> None:
    async def scenario(stepper: Stepper) -> None:
        known = registry.add("orders-value", ORDER)
        odd = registry.add("odd-value", OTHER)
        json_id = registry.add("json-value", {"type": "object"}, "JSON")
        later = json_id + 1
        good = framed(known, ORDER, {"id": 1, "country": "CH", "amount": None})
        late = framed(later, LAST, {"id": 2, "country": "CH", "amount": None, "at": 5})
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        bad = [b"", b"\x00", b"\x01" + good[1:], good + b"\x00", good[:-1]]
        bad += [framed(odd, OTHER, {"id": "x"}), framed(json_id, ORDER, {"id": 1, "country": "CH"})]
        stepper.produce("orders", [(None, value) for value in [good, *bad, late]])
        assert numbers(await stepper.step()) == {"skipped orders": len(bad) + 1, "out": 1, "derived": 1}
        assert registry.add("orders-value", LAST) == later
        stepper.produce("orders", [(None, late)])
        assert numbers(await stepper.step()) == {"skipped orders": 0, "out": 1, "derived": 1}
        await run_again(stepper, registry, 1, 2)

    run_scenario(
        [copied],
        scenario,
        {"orders": (1, SKIPPING)},
        {"out": (1, {"value_format": "json"}), "derived": (1, {"value_format": "json"})},
    )


def test_a_registry_that_is_away_or_refuses_ends_the_attempt_in_words_and_only_where_it_is_needed(
    run_scenario: RunScenario, registry: Registry
) -> None:
    async def scenario(stepper: Stepper) -> None:
        known = registry.add("orders-value", ORDER)
        value = framed(known, ORDER, {"id": 1, "country": "CH", "amount": None})
        await with_book(stepper, registry)
        registry.broken = 503
        await stepper.engine.open(0, create=True)
        stepper.produce("orders", [(None, value)])

        async def fails() -> StepFailedError:
            work = await stepper.begin(1, stepper.division(stepper.ends()))
            with pytest.raises(StepFailedError) as failed:
                await stepper.engine.run_step(work, None)
            await stepper.abort()
            await stepper.engine.open(0, create=True)
            return failed.value

        away = await fails()
        assert away.kind is FailureKind.LOST
        assert (
            f"input 'orders': schema registry {registry.url} did not answer for schema {known} within 600 ms"
            in str(away)
        )
        registry.broken, registry.user_info = 0, "kcontrol:other"
        refused = await fails()
        assert refused.kind is FailureKind.DENIED
        assert "it refuses the login (401)" in str(refused)
        registry.user_info = "kcontrol:secret"
        await stepper.step()
        registry.broken = 503
        stepper.produce("orders", [(None, value)])
        assert numbers(await stepper.step())["out"] == 1

    run_scenario([copied], scenario, {"orders": (1, SKIPPING)}, OUTPUTS)


def test_a_bad_value_halts_and_says_where_it_is_and_why(
    run_scenario: RunScenario, registry: Registry
) -> None:
    async def scenario(stepper: Stepper) -> None:
        registry.add("orders-value", ORDER)
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        stepper.produce("orders", [(None, b'{"id": 1}')])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        with pytest.raises(StepFailedError) as failed:
            await stepper.engine.run_step(work, None)
        await stepper.abort()
        assert failed.value.kind is FailureKind.QUERY
        topic = stepper.pipeline.input("orders").topic
        for part in (
            f"the record of topic '{topic}', partition 0, offset 0, is not what value_format='confluent-avro'",
            "it does not begin with a zero byte and a schema's id of four, but with 7b 22 69 64 22",
        ):
            assert part in str(failed.value)

    inputs = {"orders": (1, {"value_format": "confluent-avro", "schema": ORDER})}
    run_scenario(
        [copied],
        scenario,
        inputs,
        {"out": (1, {"value_format": "json"}), "derived": (1, {"value_format": "json"})},
    )


ORDER_PROTO = """
syntax = "proto3";
package shop;
message Order {
  int64 id = 1;
  string country = 2;
  optional double amount = 3;
  repeated Line lines = 4;
  message Line { string what = 1; }
}
"""
FIRST_PROTO = """
syntax = "proto3";
package shop;
import "shop/line.proto";
message Refund { int64 id = 1; }
message Order {
  int32 number = 1;
  string land = 2;
  repeated shop.Line lines = 4;
  string note = 9;
}
"""
"""What a producer writes: a narrower number, fields of other names and one that nobody reads, the second message of a file that
needs another."""
LINE_PROTO = 'syntax = "proto3"; package shop; message Line { string what = 1; }'


def test_protobuf_comes_in_by_any_message_of_the_topic_and_goes_out_by_its_own_and_again_without_the_registry(
    run_scenario: RunScenario, registry: Registry
) -> None:
    async def scenario(stepper: Stepper) -> None:
        registry.add("line", LINE_PROTO, "PROTOBUF")
        line: dict[str, Any] = {"name": "shop/line.proto", "subject": "line", "version": 1}
        first = registry.add(
            "orders-value", serialized(FIRST_PROTO, {line["name"]: LINE_PROTO}), "PROTOBUF", [line]
        )
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        (written,) = registry.subjects()["shop.Order"]
        head, behind_first = b"\x00" + struct.pack(">I", written), b"\x00" + struct.pack(">I", first)
        values = [
            behind_first + bytes.fromhex("0202" + "0801" + "12024348" + "22030a0178" + "4a016e"),
            head + bytes.fromhex("00" + "0802" + "12024e4c" + "19000000000000e03f"),
        ]
        refund = behind_first + bytes.fromhex("00" + "0801")
        stepper.produce("orders", [(None, each) for each in [*values, refund, values[1][:-1]]])
        boundary = await stepper.step()
        assert numbers(boundary) == {"skipped orders": 2, "out": 2, "derived": 2}
        assert [row.value for row in stepper.committed("out")] == [
            head + bytes.fromhex("00" + "0801" + "12024348" + "22030a0178"),
            values[1],
        ]
        await run_again(stepper, registry, 1)

    def copied_with_lines(orders: Any) -> Any:
        return {"out": orders.select("id", "country", "amount", "lines"), "derived": orders.select("id")}

    spoken = {"value_format": "confluent-protobuf", "schema": ORDER_PROTO}
    run_scenario(
        [copied_with_lines],
        scenario,
        {"orders": (1, {**spoken, "on_bad_record": "skip"})},
        {"out": (1, {**spoken, "subject": "record"}), "derived": (1, {"value_format": "json"})},
    )
