"""Spark's files that kcontrol reads or writes, each in the one version that it knows.

As in OffsetSeqLog.scala, CommitLog.scala and StateStoreChangelog.scala of Spark 4.3. A plan or record of
another version is refused by name, for what it means would be a guess. State files are only copied: those
that read otherwise are taken whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcontrol.errors import ConfigurationError

OFFSETS_VERSION = "v1"
"""Of a batch's plan: a line of settings, then a line for each source ('-' for one that has no offset)."""
COMMITS_VERSION = "v2"
"""Of a batch's record: with the ids of its state stores' versions (checkpoint format 2)."""
CHANGELOG_VERSIONS = (b"v3", b"v4")
"""Of a state store's changes: those that begin with their lineage."""
_OPERATOR = "_metadata"
_OPERATOR_VERSIONS = ("v1", "v2")
"""Of what is written down of an operator: once, or for each batch from which on it is otherwise."""

_NO_OFFSET = "-"


def plan_text(settings: str, ends: Sequence[int]) -> str:
    """A batch's plan. ends: by source, the step that it ends at. settings: one line of JSON."""
    return "\n".join([OFFSETS_VERSION, settings, *(json.dumps({"step": end}) for end in ends)])


def planned_ends(plan: Path) -> list[int]:
    """The step at which each source of a batch ends, as Spark wrote it down before the batch ran.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    _, *ends = _lines(plan, OFFSETS_VERSION)
    return [int(json.loads(line)["step"]) for line in ends if line != _NO_OFFSET]


def record_text(watermark_ms: int, unique_ids: Mapping[str, Any]) -> str:
    """A batch's record. unique_ids: by operator, those of its state stores' versions."""
    return f"{COMMITS_VERSION}\n" + json.dumps(
        {"nextBatchWatermarkMs": watermark_ms, "stateUniqueIds": unique_ids}
    )


def unique_ids(record: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """By operator and partition, the ids of its state stores' versions; empty where Spark keeps none.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    told = json.loads((_lines(record, COMMITS_VERSION) or ["{}"])[0])
    return {
        (operator, str(partition)): tuple(each for each in ids if each)
        for operator, partitions in (told.get("stateUniqueIds") or {}).items()
        for partition, ids in enumerate(partitions)
    }


def _lines(path: Path, version: str) -> list[str]:
    """What follows the version."""
    found, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    if found != version:
        raise ConfigurationError(
            f"{path} is of format {found!r}, and kcontrol knows {version!r}: it was written by another "
            "Spark, or with other settings; start the node with an empty working directory, and its state "
            "comes from a checkpoint or is replayed"
        )
    return lines


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """An operator with state, as Spark has written it down. number: within the query. name: of its kind. stores: names
    of its state stores. variables: by name, the kind of each that a transformWithState has."""

    number: int
    name: str
    stores: tuple[str, ...]
    variables: Mapping[str, str]


def operators(state: Path, batch: int) -> list[StatefulOperator]:
    """Those whose state is under `state` as of a batch, by number.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    found = []
    for folder in sorted(
        (path for path in state.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)
    ):
        told = json.loads(_operator_lines(folder / _OPERATOR, batch)[0])
        properties = json.loads(told.get("operatorPropertiesJson") or "{}")
        variables = {
            each["stateName"]: each["stateVariableType"] for each in properties.get("stateVariables", ())
        }
        stores = tuple(each["storeName"] for each in told["stateStoreInfo"])
        info = told["operatorInfo"]
        found.append(StatefulOperator(int(info["operatorId"]), str(info["operatorName"]), stores, variables))
    return found


def _operator_lines(folder: Path, batch: int) -> list[str]:
    if (folder / "metadata").is_file():
        return _lines(folder / "metadata", _OPERATOR_VERSIONS[0])
    newer = folder / _OPERATOR_VERSIONS[1]
    written = [
        int(path.name) for path in newer.iterdir() if path.name.isdecimal() and int(path.name) <= batch
    ]
    return _lines(newer / str(max(written, default=batch)), _OPERATOR_VERSIONS[1])
