"""Logs of every version fold to the same state for ever, broken ones are refused, and no released version is
left out.

A failure here means that logs which lie in somebody's Kafka would be understood otherwise than they were:
correct the code, not the golden.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcontrol.core.model import PipelineSpec, StepBoundary
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.differences import part_of
from kcontrol.errors import DamagedRecordError
from kcontrol.wire.cluster import CLUSTER_CLASSES, cluster_record
from kcontrol.wire.cluster_snapshot import ClusterSnapshot, snapshot_of
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, RecordCodec
from kcontrol.wire.json import to_json
from kcontrol.wire.package_signatures import PackageSignature, signature_of
from kcontrol.wire.packages import PackageManifest, manifest_of
from kcontrol.wire.pushed import PushedRequest, pushed_of
from kcontrol.wire.regions import REGION_CLASSES, region_record
from tests.golden.files import names, read_history, record_files, state_of, versions
from tests.golden.projection import project
from tests.golden.scenarios import SCENARIOS
from tests.simulation.specs import PIPELINE

REFUSED = [name for name in names() if "refused" in state_of(name)]
FOLDED = [name for name in names() if name not in REFUSED]


@pytest.mark.parametrize("name", FOLDED)
def test_a_history_folds_to_the_same_for_ever(name: str) -> None:
    assert json.loads(json.dumps(project(PIPELINE, read_history(name)))) == state_of(name)


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_history_is_refused(name: str) -> None:
    history = read_history(name)
    with pytest.raises(DamagedRecordError) as refused:
        project(PIPELINE, history)
    assert type(refused.value).__name__ == state_of(name)["refused"]


@pytest.mark.parametrize("name", [name for name in FOLDED if name.endswith("first-release")])
def test_what_the_first_release_has_logged_can_be_run_again_though_its_outputs_are_wider_now(
    name: str,
) -> None:
    """How many partitions an output had is in every layout; digests of input are of the first version."""
    history = read_history(name)
    spec = next(one.record for one in history.control if isinstance(one.record, PipelineSpec))
    wide = replace(
        spec, outputs=tuple(replace(each, partitions=each.partitions + 5) for each in spec.outputs)
    )
    boundaries = [one.record for one in history.steps if isinstance(one.record, StepBoundary)]
    assert boundaries
    for boundary in boundaries:
        assert {piece.digest_version for piece in boundary.inputs} == {1}
        for node in range(spec.nodes):
            assert work_of(boundary, wide, node) == work_of(boundary, spec, node)
            assert part_of(boundary, wide, node) == part_of(boundary, spec, node)
        written = {p for node in range(spec.nodes) for p in work_of(boundary, wide, node).writers[0]}
        assert written == set(range(spec.outputs[0].partitions))


def test_every_scenario_has_its_history() -> None:
    assert set(SCENARIOS) <= set(names()), "run python -m tests.golden.make"
    assert {"broken-by-a-gap", "broken-by-two-attempts"} <= set(REFUSED)
    assert all("broken" in name for name in REFUSED)


def test_every_version_of_every_record_is_there() -> None:
    found = {(golden["record"], golden["version"]) for golden in map(_golden, record_files())}
    assert found >= {(record, number) for record, number, _ in versions()}, "run python -m tests.golden.make"


def test_a_released_version_stays_as_it_was() -> None:
    """The history of the schemas may grow, and nothing else."""
    released = {(record, number): json.loads(schema.json) for record, number, schema in versions()}
    for golden in map(_golden, record_files()):
        assert released[golden["record"], golden["version"]] == golden["schema"], (
            golden["record"],
            golden["version"],
        )


@pytest.mark.parametrize("path", record_files(), ids=lambda path: path.stem)
def test_a_record_is_read_with_all_that_its_writer_said(path: Path) -> None:
    golden = _golden(path)
    data = b64decode(golden["value"])
    codec = RecordCodec()
    assert data[:2] == MAGIC
    assert codec.knows(data[:HEADER_BYTES]), "a released schema needs no publication"
    if golden["record"] == ClusterSnapshot.__name__:
        decoded: Any = snapshot_of(data)
    elif golden["record"] == PackageManifest.__name__:
        decoded = manifest_of(data)
    elif golden["record"] == PackageSignature.__name__:
        decoded = signature_of(data)
    elif golden["record"] == PushedRequest.__name__:
        decoded = pushed_of(data, "a record")
    elif golden["record"] in REGION_CLASSES:
        decoded = region_record(data, "a record")
    else:
        decoded = cluster_record(data) if golden["record"] in CLUSTER_CLASSES else codec.decode(data)
    assert type(decoded).__name__ == golden["record"]
    assert _lacks(to_json(decoded), golden["fields"], golden["record"]) == []


def _lacks(found: Any, expected: Any, where: str) -> list[str]:
    """Where `found` does not have what `expected` has; it may have more fields."""
    if isinstance(expected, dict):
        return [
            bad for name, value in expected.items() for bad in _lacks(found[name], value, f"{where}.{name}")
        ]
    if isinstance(expected, list):
        if len(found) != len(expected):
            return [where]
        pairs = zip(found, expected, strict=True)
        return [
            bad for index, (one, other) in enumerate(pairs) for bad in _lacks(one, other, f"{where}[{index}]")
        ]
    return [] if found == expected else [where]


def _golden(path: Path) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return golden
