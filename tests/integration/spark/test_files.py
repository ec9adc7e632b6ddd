"""Inputs of files through a node's engine: each line in one step, the same when it is run again, and what is bad as the input
says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from kcontrol import FileInput
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from tests.conftest import TopicFactory
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.files_server import serving_files


def rows(lines: Any) -> Any:
    return {
        "out": lines.select("customer", "amount", F.substring_index("file", "/", -1).alias("file"), "offset")
    }


def seen(stepper: Stepper) -> list[dict[str, Any]]:
    found = [json.loads(row.value or b"") for row in stepper.committed("out")]
    return sorted(found, key=lambda row: row["offset"])


@pytest.mark.parametrize("plan_once", [True, False])
def test_each_line_is_in_the_step_of_its_first_byte_and_a_replay_reads_it_again(
    run_scenario: RunScenario, tmp_path: Path, plan_once: bool
) -> None:
    texts = {
        name: [f'{{"customer":"{name}","amount":{at}}}' for at in range(50)]
        for name in ("a.ndjson", "b.ndjson")
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    size = (tmp_path / "a.ndjson").stat().st_size

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        within = size + len(texts["b.ndjson"][0]) + 5
        for to in (10, within, 2 * size):
            await stepper.step({("lines", 0): to})
        assert [(b.inputs[0].from_, b.inputs[0].to) for b in map(stepper.log.get, (1, 2, 3)) if b] == [
            (0, 10),
            (10, within),
            (within, 2 * size),
        ]
        assert [b.inputs[0].records for b in map(stepper.log.get, (1, 2, 3)) if b] == [1, 51, 48]
        assert [(row["file"], row["amount"]) for row in seen(stepper)] == [
            (name, at) for name in texts for at in range(50)
        ]
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=not stepper.engine.openable())
        again = await stepper.replay(2)
        assert again.inputs == stepper.log[2].inputs
        other = (tmp_path / "a.ndjson").read_text().replace('"amount":7}', '"amount":8}')
        (tmp_path / "a.ndjson").write_text(other)
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=not stepper.engine.openable())
        with pytest.raises(StepFailedError) as failed:
            await stepper.replay(2)
        assert failed.value.kind is FailureKind.DIGEST

    source = FileInput(
        "lines",
        path=str(tmp_path),
        pattern="*.ndjson",
        value_format="json",
        schema="customer STRING, amount INT",
    )
    run_scenario(
        [rows], scenario, {}, {"out": (2, {"value_format": "json"})}, plan_once=plan_once, generated=[source]
    )


BAD_JSON = [
    (b'{"customer":"bob",', "not valid JSON for the schema"),
    (b'[{"customer":"eve","amount":2}]', "not valid JSON for the schema"),
    (b'{"customer":"max","amount":"two"}', "not valid JSON for the schema"),
    (b'{"customer":"\xff","amount":5}', "not valid JSON for the schema"),
    (b'{"customer":"' + b"g" * 200 + b'"}', "it has 215 bytes, more than max_line_bytes = 100"),
]


@pytest.mark.parametrize("handled", ["halt", "dead_letter"])
def test_a_bad_line_of_json_goes_where_the_input_says_with_the_place_and_the_reason(
    run_scenario: RunScenario, topic_factory: TopicFactory, tmp_path: Path, handled: str
) -> None:
    file = tmp_path / "a.ndjson"
    first = b'{"customer":"ann","amount":1}'
    wrong = [line for line, _ in BAD_JSON]
    file.write_bytes(b"\n".join([first, *wrong, b'{"customer":"zoe","amount":7}', b""]))
    size, begins = file.stat().st_size, len(first) + 1

    async def halts(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        said = (
            rf"a\.ndjson at offset {begins} is no record of value_format='json' by the schema: not valid JSON"
        )
        with pytest.raises(StepFailedError, match=said) as failed:
            await stepper.step({("lines", 0): begins + len(wrong[0]) + 1})
        assert failed.value.kind is FailureKind.QUERY

    async def goes_on(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        boundary = await stepper.step({("lines", 0): size})
        assert [(row["customer"], row["amount"]) for row in seen(stepper)] == [("ann", 1), ("zoe", 7)]
        letters = stepper.committed("lines.dead_letter")
        told = [{name: value.decode() for name, value in row.headers if name != "step"} for row in letters]
        assert [(row.value or b"")[:14] for row in letters] == [line[:14] for line in wrong]
        assert [each["kcontrol.error"].partition(": ")[0] for each in told] == [why for _, why in BAD_JSON]
        assert {each["kcontrol.file"] for each in told} == {str(file)}
        assert told[0]["kcontrol.offset"] == str(begins)
        await stepper.engine.open(0, create=True)
        assert (await stepper.replay(1)).skipped == boundary.skipped

    source = FileInput(
        "lines",
        path=str(file),
        value_format="json",
        schema="customer STRING, amount INT",
        max_line_bytes=100,
        on_bad_record=handled,  # type: ignore[arg-type]
        dead_letter_topic=None if handled == "halt" else topic_factory("dead"),
    )
    scenario = halts if handled == "halt" else goes_on
    run_scenario([rows], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=[source])


BAD = b'ann,1\n"bob\neve,two\nmax,3,4\n\xff,5\nlong' + b"g" * 200 + b',6\nzoe,"7"\n"o""k",8\n'


@pytest.mark.heavy
def test_bad_lines_of_csv_go_where_the_input_says_with_the_place_and_the_reason(
    run_scenario: RunScenario, topic_factory: Any, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"customer,amount\n" + BAD)
    dead = topic_factory("dead", 1)

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        boundary = await stepper.step({("lines", 0): file.stat().st_size})
        assert boundary.inputs[0].records == 8
        good = [(row["customer"], row["amount"]) for row in seen(stepper)]
        assert good == [("ann", 1), ("zoe", 7), ('o"k', 8)]
        letters = stepper.committed("lines.dead_letter")
        assert [bytes(row.value or b"")[:4] for row in letters] == [
            b'"bob',
            b"eve,",
            b"max,",
            b"\xff,5",
            b"long",
        ]
        told = [{name: value.decode() for name, value in row.headers if name != "step"} for row in letters]
        assert [each["kcontrol.error"].partition(":")[0] for each in told] == [
            "a field in quotes does not end within the line",
            "not valid CSV for the schema",
            "not valid CSV for the schema",
            "not UTF-8",
            "it has 206 bytes, more than max_line_bytes = 100",
        ]
        assert {each["kcontrol.file"] for each in told} == {str(file)}
        assert told[0]["kcontrol.offset"] == str(len(b"customer,amount\nann,1\n"))

    source = FileInput(
        "lines",
        path=str(file),
        value_format="csv",
        schema="customer STRING, amount INT",
        header=True,
        max_line_bytes=100,
        on_bad_record="dead_letter",
        dead_letter_topic=dead,
    )
    run_scenario([rows], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=[source])


@pytest.mark.heavy
def test_a_number_of_csv_that_nobody_can_write_out_is_a_bad_line(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"12e500000,1.239\nann,1e-500000000\nbob,\n12e500000,0e500000000\nzoe,1e-99999\n")

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        boundary = await stepper.step({("lines", 0): file.stat().st_size})
        assert [(row["customer"], row.get("amount")) for row in seen(stepper)] == [
            ("12e500000", 1.24),
            ("bob", None),
            ("zoe", 0.0),
        ]
        assert boundary.skipped[0].records == 2

    source = FileInput(
        "lines",
        path=str(file),
        value_format="csv",
        schema="customer STRING, amount DECIMAL(5,2)",
        on_bad_record="skip",
    )
    run_scenario([rows], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=[source])


@pytest.mark.heavy
def test_a_bad_line_halts_and_names_file_and_offset_and_lines_as_they_are_have_no_fields(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\n" + b"x" * 50 + b"\n")

    def whole(lines: Any) -> Any:
        return {"out": lines.select("value", "offset")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await stepper.step({("lines", 0): 4})
        assert [row["offset"] for row in seen(stepper)] == [0]
        with pytest.raises(
            StepFailedError,
            match=r"a\.txt at offset 4 is no record: it has 50 bytes, more than max_line_bytes = 10",
        ):
            await stepper.step({("lines", 0): 55})

    source = FileInput("lines", path=str(file), max_line_bytes=10)
    run_scenario([whole], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=[source])


@pytest.mark.heavy
def test_lines_behind_a_url_are_of_one_version(run_scenario: RunScenario) -> None:
    data = "\n".join(f'{{"customer":"c{at}","amount":{at}}}' for at in range(60)).encode()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await stepper.step({("lines", 0): 500})
        await stepper.step({("lines", 0): len(data)})
        assert [row["amount"] for row in seen(stepper)] == list(range(60))
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=not stepper.engine.openable())
        assert (await stepper.replay(2)).inputs == stepper.log[2].inputs
        server.put("/a.ndjson", data, '"v2"')
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=not stepper.engine.openable())
        with pytest.raises(StepFailedError, match="is another version") as failed:
            await stepper.replay(2)
        assert failed.value.kind is FailureKind.INPUT_GONE

    with serving_files() as server:
        url = server.put("/a.ndjson", data, '"v1"')
        source = FileInput("lines", path=url, value_format="json", schema="customer STRING, amount INT")
        run_scenario([rows], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=[source])
