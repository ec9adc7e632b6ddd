"""Rows that delete: tombstones in and out, JSON behind an id, and the newest row of each key out of Debezium's changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.spark.values.json_schema import json_schema
from kcontrol.core.model import FailureKind
from kcontrol.errors import ConfigurationError, StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_confluent import framed, numbers, run_again, with_book
from tests.support.registry import Registry, serving

VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.customers",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
"""As Debezium registers it."""


JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "out",
    "type": "object",
    "properties": {
        "id": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    },
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as found:
        yield found


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    return framed(1, ENVELOPE, {"before": before, "after": after, "op": op, "ts_ms": 5})


def person(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


def test_changes_become_the_newest_row_of_each_key_and_deletions_tombstones(
    run_scenario: RunScenario, registry: Registry
) -> None:
    def newest(changes: Any) -> Any:
        return {"out": kcontrol.output(kcontrol.newest_rows(changes, "id").drop("op"), "update")}

    async def scenario(stepper: Stepper) -> None:
        assert registry.add("customers-value", ENVELOPE) == 1
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        a, b, c = person(1, "a"), person(2, "b"), person(3, "c")
        first = [change("r", None, a), change("c", None, b), change("c", None, c), change("d", c, None), None]
        stepper.produce("changes", [(b"k", value) for value in first])
        await stepper.step()
        newer = person(1, "A")
        second = [change("u", a, person(1, "x")), change("d", b, None), None, change("u", None, newer)]
        stepper.produce("changes", [(b"k", value) for value in [*second, change("m", None, None)]])
        await stepper.step()
        (written,) = next(ids for name, ids in registry.subjects().items() if name != "customers-value")

        def row(of: dict[str, Any]) -> bytes:
            return framed(written, registry.text(written), of)

        found = [(each.step, each.key, each.value) for each in stepper.committed("out")]
        assert sorted(found) == [
            (1, b"1", row(a)),
            (1, b"2", row(b)),
            (1, b"3", None),
            (2, b"1", row(newer)),
            (2, b"2", None),
        ]
        assert "deleted" not in [each["name"] for each in registry.text(written)["fields"]]
        await run_again(stepper, registry, 1, 2)

    inputs = {"changes": (1, {"value_format": "confluent-avro", "schema": ENVELOPE})}
    out = {"value_format": "confluent-avro", "key": "id", "deleted_by": "deleted"}
    run_scenario([newest], scenario, inputs, {"out": (1, out)})


def test_changes_that_come_out_of_order_are_ordered_by_the_column_that_is_named(
    run_scenario: RunScenario,
) -> None:
    """Within a step, and against what state has of steps before."""

    def newest(changes: Any) -> Any:
        rows = kcontrol.newest_rows(changes, "id", order_by="lsn")
        return {"out": kcontrol.output(rows.drop("op"), "update")}

    def said(lsn: int, op: str, number: int, name: str) -> tuple[None, bytes]:
        row = person(number, name)
        before, after = (row, None) if op == "d" else (None, row)
        return None, json.dumps({"lsn": lsn, "op": op, "before": before, "after": after}).encode()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        late = [
            said(3, "u", 1, "third"),
            said(1, "c", 1, "first"),
            said(9, "d", 2, "b"),
            said(8, "u", 2, "b"),
        ]
        stepper.produce("changes", [*late, said(4, "c", 3, "old")])
        await stepper.step()
        later = [said(2, "u", 1, "second"), said(7, "c", 2, "b"), said(10, "u", 3, "new")]
        stepper.produce("changes", [*later, said(5, "u", 3, "older")], partition=1)
        await stepper.step()
        found = [
            (each.step, each.key, json.loads(each.value or b"null")) for each in stepper.committed("out")
        ]
        expected: list[tuple[int, bytes, Any]] = [
            (step, key, row)
            for step, name in ((1, "old"), (2, "new"))
            for key, row in ((b"1", person(1, "third")), (b"2", None), (b"3", person(3, name)))
        ]
        assert sorted(found, key=lambda each: each[:2]) == expected
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            await stepper.replay(step)

    ddl = "before struct<id int, name string>, after struct<id int, name string>, op string, lsn bigint"
    inputs = {"changes": (2, {"value_format": "json", "schema": ddl})}
    out = {"value_format": "json", "key": "id", "deleted_by": "deleted"}
    run_scenario([newest], scenario, inputs, {"out": (1, out)})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b'{"op": "t", "before": null, "after": null}', "op is t, which is no change of a row"),
        (b'{"op": "d", "before": null, "after": null}', "op is d, and the row has no id"),
        (b'{"op": "d", "before": {"name": "a"}, "after": null}', "op is d, and the row has no id"),
        (b'{"op": "u", "before": {"id": 1, "name": "a"}, "after": null}', "op is u, and the row has no id"),
        (
            b'{"op": "c", "before": null, "after": {"id": null, "name": "a"}}',
            "op is c, and the row has no id",
        ),
    ],
)
def test_what_is_no_change_of_a_row_halts_instead_of_being_passed_over(
    run_scenario: RunScenario, said: bytes, why: str
) -> None:
    def newest(changes: Any) -> Any:
        return {"out": kcontrol.output(kcontrol.newest_rows(changes, ["id"]), "update")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("changes", [(None, said)])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        with pytest.raises(StepFailedError, match=f"newest_rows: {why}") as failed:
            await stepper.engine.run_step(work, None)
        assert failed.value.kind is FailureKind.QUERY
        await stepper.abort()

    ddl = "before struct<id int, name string>, after struct<id int, name string>, op string"
    inputs = {"changes": (1, {"value_format": "json", "schema": ddl})}
    run_scenario([newest], scenario, inputs, {"out": (1, {"value_format": "json"})})


def test_json_and_tombstones_come_in_and_go_out_behind_an_id(
    run_scenario: RunScenario, registry: Registry
) -> None:
    def copied(marked: Any, dropped: Any) -> Any:
        rows = marked.select(
            F.coalesce("id", F.col("key").cast("string").cast("int")).alias("id"), "name", "deleted"
        )
        # A column that is not null for any row but a deleted one: what is written of those must not matter.
        strict = rows.withColumn("name", F.when(F.col("deleted"), None).otherwise(F.col("name")))
        return {"out": strict, "plain": strict, "kept": dropped.select("id")}

    async def scenario(stepper: Stepper) -> None:
        await with_book(stepper, registry)
        await stepper.engine.open(0, create=True)
        good = [b'\x00\x00\x00\x00\x63{"id": 1, "name": "a"}', b'\x00\x00\x00\x00\x64 {"id": 2}']
        bad = [
            b'{"id": 1, "name": "a"}',
            b"\x00\x00\x00",
            b"\x00\x00\x00\x00\x63",
            b"\x00\x00\x00\x00\x63[]",
            b"",
        ]
        records = [(str(number).encode(), value) for number, value in enumerate([*good, *bad, None], 1)]
        stepper.produce("marked", records)
        stepper.produce("dropped", records)
        found = numbers(await stepper.step())
        assert found == {"skipped marked": 5, "skipped dropped": 5, "out": 3, "plain": 3, "kept": 2}
        topic = stepper.pipeline.output("out").topic
        (written,) = registry.subjects()[f"{topic}-value"]
        assert registry.text(written) == JSON_SCHEMA
        header = b"\x00" + written.to_bytes(4, "big")
        rows = [(row.key, row.value) for row in stepper.committed("out")]
        assert rows == [
            (b"1", header + b'{"id":1,"name":"a"}'),
            (b"2", header + b'{"id":2,"name":null}'),
            (b"8", None),
        ]
        assert [row.value for row in stepper.committed("plain")] == [
            value and value[len(header) :] for _, value in rows
        ]
        assert [json.loads(row.value or b"") for row in stepper.committed("kept")] == [{"id": 1}, {"id": 2}]
        await run_again(stepper, registry, 1)

    skipping = {"value_format": "confluent-json", "schema": "id int, name string", "on_bad_record": "skip"}
    deleting = {"key": "id", "deleted_by": "deleted"}
    run_scenario(
        [copied],
        scenario,
        {
            "marked": (1, {**skipping, "tombstones": "mark"}),
            "dropped": (1, {**skipping, "tombstones": "drop"}),
        },
        {
            "out": (1, {"value_format": "confluent-json", **deleting}),
            "plain": (1, {"value_format": "json", **deleting}),
            "kept": (1, {"value_format": "json"}),
        },
    )


WRONG = [
    pytest.param(
        "id int, deleted string", {"tombstones": "mark"}, {}, "adds a column 'deleted'", id="a column twice"
    ),
    pytest.param(
        "id int",
        {},
        {"key": "id", "deleted_by": "gone"},
        "must be a BOOLEAN column .* not there",
        id="not there",
    ),
    pytest.param(
        "id int, gone string", {}, {"key": "id", "deleted_by": "gone"}, "and is string", id="of another type"
    ),
]


@pytest.mark.parametrize(("schema", "more", "output", "said"), WRONG)
def test_columns_that_tell_deletions_are_looked_at(
    run_scenario: RunScenario, schema: str, more: dict[str, Any], output: dict[str, Any], said: str
) -> None:
    async def never(_: Stepper) -> None:
        raise AssertionError("the pipeline should have been refused")

    def out(events: Any) -> Any:
        return events.drop("key", "value", "topic", "partition", "timestamp", "timestampType")

    inputs = {"events": (1, {"value_format": "json", "schema": schema, **more})}
    with pytest.raises(ConfigurationError, match=said):
        run_scenario([out], never, inputs, {"out": (1, {"value_format": "json", **output})})


@pytest.mark.parametrize(
    ("schema", "key", "said"),
    [
        ("id int, op string", "id", "no column 'before'"),
        ("before struct<id int>, after string, op string", "id", "structs with the same fields"),
        ("before struct<id int>, after struct<id int>, op string", "nr", r"key = \['nr'\]: must name fields"),
        ("before struct<op int>, after struct<op int>, op string", "op", "a field 'op' of its own"),
    ],
)
def test_a_frame_that_is_no_envelope_is_refused(
    run_scenario: RunScenario, schema: str, key: str, said: str
) -> None:
    async def never(_: Stepper) -> None:
        raise AssertionError("the pipeline should have been refused")

    def out(events: Any) -> Any:
        return kcontrol.output(kcontrol.newest_rows(events, key), "update")

    inputs = {"events": (1, {"value_format": "json", "schema": schema})}
    with pytest.raises(ConfigurationError, match=said):
        run_scenario([out], never, inputs, {"out": (1, {"value_format": "json"})})


def test_what_spark_writes_as_json_is_what_the_schema_says(spark: SparkSession) -> None:
    frame = spark.sql(
        """SELECT true b, 1Y y, 2S s, 3 i, 4L l, 0.5F f, double('NaN') n, double('-Infinity') m, 1.25BD d, 'x' t, X'ff' x,
        date'2026-11-25' day, timestamp'2026-11-25 01:02:03' at, timestamp_ntz'2026-11-25 01:02:03' ntz, null nothing,
        array(1, null) list, map('k', 1L) pairs, struct('a' AS inner) nested
        UNION ALL SELECT """
        + ", ".join(["null"] * 18)
    )
    schema = json_schema(frame.schema, "all", "here")
    jsonschema.Draft7Validator.check_schema(schema)
    written = frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
    for (text,) in written:
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft7Validator)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(written[0][0]), "i": "1"}, schema, jsonschema.Draft7Validator)
    with pytest.raises(
        ConfigurationError, match="here: column 'v': Spark's type variant has no JSON Schema: cast it"
    ):
        json_schema(spark.sql("SELECT parse_json('1') v").schema, "all", "here")
