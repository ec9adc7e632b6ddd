"""Values in and out: JSON and Avro, three ways to treat a bad record, keys, headers and partitions, kinds of
digest."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from pyspark.sql import functions as F

import kcontrol
from kcontrol.core.model import FailureKind
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import ConfigurationError, StepFailedError
from kcontrol.wire.murmur2 import partition_of
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.json_values import BAD as BAD_VALUE
from tests.support.json_values import JSON_VALUES, SCHEMA

DDL = "name string, n long"
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "n", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
    ],
}
GOOD = [b'{"name": "a", "n": 1}', b'{"name": "b", "n": null}', b'{"name": "c"}']
BAD = [b"no json", b'{"name": "d", "n": "many"}']


def names(events: Any) -> Any:
    return {"out": events.select("name", "n")}


def values_of(stepper: Stepper, output: str) -> list[Any]:
    return [json.loads(row.value or b"") for row in stepper.committed(output)]


def test_a_bad_record_halts_and_says_where_it_is(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, GOOD[0]), (None, BAD[0])])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        with pytest.raises(StepFailedError) as failed:
            await stepper.engine.run_step(work, None)
        assert failed.value.kind == FailureKind.QUERY
        topic = stepper.pipeline.input("events").topic
        assert f"the record of topic '{topic}', partition 0, offset 1, is not" in str(failed.value)
        await stepper.abort()

    run_scenario(
        [names],
        scenario,
        {"events": (1, {"value_format": "json", "schema": DDL})},
        {"out": (1, {"value_format": "json"})},
    )


def test_bad_records_are_skipped_and_counted_once(run_scenario: RunScenario) -> None:
    def more(events: Any) -> Any:
        return {"more": events.select("n")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, value) for value in [*GOOD, *BAD]])
        boundary = await stepper.step()
        assert [(item.input, item.records) for item in boundary.skipped] == [("events", 2)]
        assert boundary.inputs[0].records == 5
        assert values_of(stepper, "out") == [
            {"name": "a", "n": 1},
            {"name": "b", "n": None},
            {"name": "c", "n": None},
        ]
        await stepper.engine.open(0, create=True)
        assert (await stepper.replay(1)).skipped == boundary.skipped

    inputs = {"events": (1, {"value_format": "json", "schema": DDL, "on_bad_record": "skip"})}
    run_scenario(
        [names, more],
        scenario,
        inputs,
        {"out": (1, {"value_format": "json"}), "more": (1, {"value_format": "json"})},
    )


def test_bad_records_go_to_the_dead_letter_topic_in_the_same_step(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(b"k", value) for value in [*GOOD, *BAD]])
        boundary = await stepper.step()
        assert {(item.output, item.records) for item in boundary.outputs} == {
            ("out", 3),
            ("events.dead_letter", 2),
        }
        letters = stepper.committed("events.dead_letter")
        assert [(row.step, row.key, row.value) for row in letters] == [(1, b"k", value) for value in BAD]
        headers = dict(letters[1].headers)
        assert (headers["kcontrol.partition"], headers["kcontrol.offset"]) == (b"0", b"4")
        assert b"not valid JSON" in headers["kcontrol.error"]
        await stepper.engine.open(0, create=True)
        await stepper.replay(1)

    bad = {"value_format": "json", "schema": DDL, "on_bad_record": "dead_letter", "dead_letter_topic": 1}
    run_scenario([names], scenario, {"events": (1, bad)}, {"out": (1, {"value_format": "json"})})


def test_what_each_json_value_gives_is_what_the_page_says_also_in_a_replay(run_scenario: RunScenario) -> None:
    columns = [F.col(name) for name in ("s", "n", "big", "x", "d", "t", "list", "b", "z")]

    def shown(events: Any) -> Any:
        return {"out": events.select("offset", F.to_json(F.struct(*columns)).alias("row"))}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, value) for value, _ in JSON_VALUES.values()])
        boundary = await stepper.step()
        names_in_order = list(JSON_VALUES)
        rows = {names_in_order[row["offset"]]: json.loads(row["row"]) for row in values_of(stepper, "out")}
        assert rows == {name: gives for name, (_, gives) in JSON_VALUES.items() if gives != BAD_VALUE}
        assert boundary.skipped[0].records == len(JSON_VALUES) - len(rows)
        await stepper.engine.open(0, create=True)
        assert (await stepper.replay(1)).skipped == boundary.skipped

    inputs = {"events": (1, {"value_format": "json", "schema": SCHEMA, "on_bad_record": "skip"})}
    run_scenario([shown], scenario, inputs, {"out": (1, {"value_format": "json"})})


def test_avro_in_and_out(run_scenario: RunScenario) -> None:
    def avro(record: dict[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), record)
        return body.getvalue()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        header = b"\xc3\x01" + bytes.fromhex(
            fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(AVRO), "CRC-64-AVRO")
        )
        good = [avro({"name": "a", "n": 1, "at": 5}), header + avro({"name": "b", "n": None, "at": 6})]
        stepper.produce("events", [(None, value) for value in [*good, b"\xff", good[0] + b"x"]])
        boundary = await stepper.step()
        assert boundary.skipped[0].records == 2
        schema = fastavro.parse_schema(json.loads(json.dumps(AVRO)))
        rows = [
            fastavro.schemaless_reader(io.BytesIO(row.value or b""), schema, None)
            for row in stepper.committed("out")
        ]
        assert [(row["name"], row["n"], row["at"].microsecond) for row in rows] == [
            ("a", 1, 5),
            ("b", None, 6),
        ]
        derived = [row.value for row in stepper.committed("derived")]
        assert derived == [b"\x02\x02a\x02\x02", b"\x02\x02b\x00"]

    def copies(events: Any) -> Any:
        return {"out": events.select("name", "n", "at"), "derived": events.select("name", "n")}

    inputs = {"events": (1, {"value_format": "avro", "schema": AVRO, "on_bad_record": "skip"})}
    outputs = {"out": (1, {"value_format": "avro", "schema": AVRO}), "derived": (1, {"value_format": "avro"})}
    run_scenario([copies], scenario, inputs, outputs)


def test_raw_rows_bring_keys_headers_and_partitions(run_scenario: RunScenario) -> None:
    def raw(events: Any) -> Any:
        header = F.struct(
            F.lit("origin").alias("key"), F.col("offset").cast("string").cast("binary").alias("value")
        )
        partition = F.when(F.col("value").cast("string") == "pinned", F.lit(2)).cast("int")
        return {
            "out": events.select(
                "key", "value", F.array(header).alias("headers"), partition.alias("partition")
            )
        }

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        keys = [f"key-{number}".encode() for number in range(20)]
        stepper.produce(
            "events",
            [*[(key, b"v") for key in keys], (b"any", b"pinned"), (None, b"no key"), (b"gone", None)],
        )
        await stepper.step()
        rows = stepper.committed("out")
        assert len(rows) == 23
        for row in rows:
            assert dict(row.headers)["origin"].isdigit()
            if row.value == b"pinned":
                assert row.partition == 2
            elif row.key is not None:
                assert row.partition == partition_of(row.key, 3)
        assert [row.value for row in rows if row.key == b"gone"] == [None]

    run_scenario(
        [raw],
        scenario,
        {"events": (1, {})},
        {"out": (3, {})},
        layout=TaskLayout(max_tasks=3, records_per_task=5),
    )


def test_the_input_can_show_headers(run_scenario: RunScenario) -> None:
    def shown(events: Any) -> Any:
        return {"out": events.select(F.to_json("headers").alias("value"))}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce_with_headers("events", b"v", [("a", b"1"), ("a", None)])
        await stepper.step()
        assert values_of(stepper, "out") == [[{"key": "a", "value": "MQ=="}, {"key": "a"}]]

    run_scenario([shown], scenario, {"events": (1, {"include_headers": True})}, {"out": (1, {})})


def test_a_float_digest_forgives_the_last_digits_and_count_forgives_all(
    run_scenario: RunScenario, tmp_path: Any
) -> None:
    factor = tmp_path / "factor"

    def scaled(events: Any) -> Any:
        scale = F.udf(lambda value: float(value) * float(factor.read_text()), "double")
        out = events.select(scale(F.col("value").cast("string")).alias("x"))
        return {"near": out, "any": out.select("x")}

    async def scenario(stepper: Stepper) -> None:
        factor.write_text("1.0")
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"3.0"), (None, b"0.7")])
        boundary = await stepper.step()
        assert {layout.output: layout.digest for layout in boundary.layout.outputs} == {
            "near": "float:1e-9",
            "any": "count",
        }
        for value in ("1.000000000001", "1.0"):
            factor.write_text(value)
            await stepper.engine.open(0, create=True)
            await stepper.replay(1)
        factor.write_text("1.001")
        await stepper.engine.open(0, create=True)
        with pytest.raises(StepFailedError, match="output 'near'"):
            await stepper.replay(1)

    outputs = {
        "near": (1, {"value_format": "json", "digest": "float:1e-9"}),
        "any": (1, {"value_format": "json", "digest": "count"}),
    }
    run_scenario([scaled], scenario, {"events": (1, {})}, outputs)


WRONG = [
    pytest.param(
        lambda events: {"out": events.select("offset")}, {}, "it has offset", id="raw without a value"
    ),
    pytest.param(
        lambda events: {"out": events.select(F.lit(1).alias("value"))},
        {},
        "cast it to string or binary",
        id="raw value of a number",
    ),
    pytest.param(
        lambda events: {"out": events.select("offset")},
        {"value_format": "json", "key": "name"},
        "key column 'name'",
        id="no key column",
    ),
    pytest.param(
        lambda events: {"out": events.select("offset")},
        {"value_format": "avro", "schema": AVRO},
        "needs the field 'name'",
        id="Avro field that is not there",
    ),
    pytest.param(
        lambda events: kcontrol.outputs(events.select("value"), to=["out"]),
        {"digest": "float:1e-3"},
        "needs a value_format",
        id="float of raw",
    ),
]


@pytest.mark.parametrize(("query", "output", "message"), WRONG)
def test_a_frame_that_does_not_fit_its_output_is_refused_in_words(
    run_scenario: RunScenario, query: Any, output: dict[str, Any], message: str
) -> None:
    query.__name__ = "out"
    with pytest.raises(ConfigurationError, match=message):
        run_scenario([query], never, {"events": (1, {})}, {"out": (1, output)})


async def never(_: Stepper) -> None:
    raise AssertionError("the pipeline should have been refused")
