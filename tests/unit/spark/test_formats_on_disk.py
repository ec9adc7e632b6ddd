"""Spark's files are read in the version that is known, and refused in any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.formats import (
    StatefulOperator,
    operators,
    plan_text,
    planned_ends,
    record_text,
    unique_ids,
)
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.errors import CheckpointError, ConfigurationError
from tests.support.spark_files import put


def test_what_is_written_is_read_and_a_source_without_an_offset_ends_nowhere(tmp_path: Path) -> None:
    plan, record = tmp_path / "6", tmp_path / "record"
    plan.write_text(plan_text("{}", [7, 7]) + "\n-")
    assert planned_ends(plan) == [7, 7]
    record.write_text(record_text(5, {"0": [["a", "b"], [None]]}))
    assert unique_ids(record) == {("0", "0"): ("a", "b"), ("0", "1"): ()}
    assert json.loads(record.read_text().splitlines()[1])["nextBatchWatermarkMs"] == 5


@pytest.mark.parametrize("found", ['v2\n{}\n{"step": 7}', "", "{}"])
def test_a_plan_of_another_version_is_refused(tmp_path: Path, found: str) -> None:
    (tmp_path / "6").write_text(found)
    with pytest.raises(ConfigurationError, match=r"/6 is of format '.*', and kcontrol knows 'v1'"):
        planned_ends(tmp_path / "6")


def test_a_state_whose_record_is_of_another_version_is_not_pinned(tmp_path: Path) -> None:
    directory = WorkDir(tmp_path, "p", 0, 5, ["q"], 100)
    directory.prepare()
    directory.create()
    put(directory.query_path("q") / "offsets" / "0", plan_text("{}", [1]))
    put(directory.query_path("q") / "commits" / "0", 'v3\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    put(directory.query_path("q") / "state" / "0" / "0" / "1_x.changelog", b"")
    with pytest.raises(
        CheckpointError, match=r"step 1 can't be kept .*commits/0 is of format 'v3', and kcontrol knows 'v2'"
    ):
        directory.pin(1)


def test_operators_are_read_in_both_versions_as_of_a_batch(tmp_path: Path) -> None:
    def told(number: int, name: str, *stores: str, **more: str) -> str:
        info = {"operatorId": number, "operatorName": name}
        return json.dumps(
            {"operatorInfo": info, "stateStoreInfo": [{"storeName": each} for each in stores], **more}
        )

    put(tmp_path / "0" / "_metadata" / "metadata", "v1\n" + told(0, "dedupe", "default"))
    variables = {"stateVariables": [{"stateName": "n", "stateVariableType": "ValueState"}]}
    put(tmp_path / "10" / "_metadata" / "v2" / "0", "v2\n" + told(10, "old", "default"))
    newer = told(10, "new", "default", operatorPropertiesJson=json.dumps(variables))
    put(tmp_path / "10" / "_metadata" / "v2" / "4", "v2\n" + newer)
    put(tmp_path / "10" / "_metadata" / "v2" / "9", "v2\n" + told(10, "newer", "default"))
    assert operators(tmp_path, 5) == [
        StatefulOperator(0, "dedupe", ("default",), {}),
        StatefulOperator(10, "new", ("default",), {"n": "ValueState"}),
    ]
    put(tmp_path / "0" / "_metadata" / "metadata", "v3\n" + told(0, "dedupe", "default"))
    with pytest.raises(ConfigurationError, match="metadata is of format 'v3', and kcontrol knows 'v1'"):
        operators(tmp_path, 5)
