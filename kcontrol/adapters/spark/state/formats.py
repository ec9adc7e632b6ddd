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

from kcontrol.adapters.spark.internals import NOT_RUN
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
_SHUFFLE = "spark.sql.shuffle.partitions"


def plan_text(settings: str, ends: Sequence[int]) -> str:
    """A batch's plan. ends: by source, the step that it ends at. settings: one line of JSON."""
    return "\n".join([OFFSETS_VERSION, settings, *(json.dumps({"step": end}) for end in ends)])


def planned_ends(plan: Path) -> list[int]:
    """The step at which each source of a batch ends, as Spark wrote it down before the batch ran.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    _, *ends = _lines(plan, OFFSETS_VERSION)
    return [int(json.loads(line)["step"]) for line in ends if line != _NO_OFFSET]


def recorded_settings(plan: Path) -> dict[str, str]:
    """Spark's settings that a batch was planned with and that hold for its state.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    told = json.loads(_lines(plan, OFFSETS_VERSION)[0])
    return {str(name): str(value) for name, value in (told.get("conf") or {}).items()}


def record_text(watermark_ms: int, unique_ids: Mapping[str, Any]) -> str:
    """A batch's record. unique_ids: by operator, those of its state stores' versions."""
    return f"{COMMITS_VERSION}\n" + json.dumps(
        {"nextBatchWatermarkMs": watermark_ms, "stateUniqueIds": unique_ids}
    )


def unique_ids(record: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """By operator and partition, the ids of its state stores' versions; empty where Spark keeps none, () for a partition
    that was not run.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    return ids_in(record.read_text(encoding="utf-8"), record)


def ids_in(record: str, where: object) -> dict[tuple[str, str], tuple[str, ...]]:
    """As `unique_ids`, of a record that is at hand. where: it was found."""
    told = json.loads((_lines_of(record, COMMITS_VERSION, where) or ["{}"])[0])
    return {
        (operator, str(partition)): tuple(each for each in ids if each and each != NOT_RUN)
        for operator, partitions in (told.get("stateUniqueIds") or {}).items()
        for partition, ids in enumerate(partitions)
    }


def partition_counts(record: Path) -> dict[int, int]:
    """By operator with state, how many partitions it has, run or not. Raises as `unique_ids`."""
    told = json.loads((_lines(record, COMMITS_VERSION) or ["{}"])[0])
    ids = told.get("stateUniqueIds") or {}
    return {int(operator): len(partitions) for operator, partitions in ids.items()}


def record_with_ids(record: Path, held: Mapping[tuple[int, int], Sequence[str]]) -> str:
    """The record of a batch as it is where these state stores are held, and no others: by operator and partition the ids
    of their versions.

    Raises as `unique_ids`.
    """
    told = json.loads((_lines(record, COMMITS_VERSION) or ["{}"])[0])
    if told.get("stateUniqueIds"):
        told["stateUniqueIds"] = {
            operator: [
                list(held.get((int(operator), partition), [NOT_RUN] * len(ids)))
                for partition, ids in enumerate(partitions)
            ]
            for operator, partitions in told["stateUniqueIds"].items()
        }
    return f"{COMMITS_VERSION}\n" + json.dumps(told)


def record_with_all_ids(record: Path, ids: Mapping[int, Sequence[Sequence[str]]]) -> str:
    """The record of a batch as it is where the state has these versions instead: by operator and partition, of each store.
    Raises as `unique_ids`."""
    told = json.loads((_lines(record, COMMITS_VERSION) or ["{}"])[0])
    told["stateUniqueIds"] = {
        str(operator): [list(stores) for stores in partitions] for operator, partitions in ids.items()
    }
    return f"{COMMITS_VERSION}\n" + json.dumps(told)


def with_shuffle_partitions(plan: Path, partitions: int) -> str:
    """The plan of a batch as it would be with so many partitions of shuffles and state. Raises as `planned_ends`."""
    settings, *ends = _lines(plan, OFFSETS_VERSION)
    told = json.loads(settings)
    told.setdefault("conf", {})[_SHUFFLE] = str(partitions)
    return "\n".join([OFFSETS_VERSION, json.dumps(told, separators=(",", ":")), *ends])


def with_partitions(metadata: Path, partitions: int) -> str:
    """What is written down of an operator as it would be with so many partitions.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    version = metadata.read_text(encoding="utf-8").partition("\n")[0]
    lines = _lines(metadata, version if version in _OPERATOR_VERSIONS else _OPERATOR_VERSIONS[-1])
    told = json.loads(lines[0])
    for store in told["stateStoreInfo"]:
        store["numPartitions"] = partitions
    return "\n".join([version, json.dumps(told, separators=(",", ":")), *lines[1:]])


def operator_files(state: Path) -> list[Path]:
    """What is written down of all operators with state."""
    found = [*state.glob(f"*/{_OPERATOR}/metadata"), *state.glob(f"*/{_OPERATOR}/v2/*")]
    return sorted(path for path in found if path.name == "metadata" or path.name.isdecimal())


def with_sources(plan: Path, step: int, sources: int) -> str:
    """The plan of a batch as it would be with so many sources, all of which end at a step. Raises as `planned_ends`."""
    settings, *_ = _lines(plan, OFFSETS_VERSION)
    return plan_text(settings, [step] * sources)


def _lines(path: Path, version: str) -> list[str]:
    """What follows the version."""
    return _lines_of(path.read_text(encoding="utf-8"), version, path)


def _lines_of(text: str, version: str, where: object) -> list[str]:
    found, *lines = text.splitlines() or [""]
    if found != version:
        raise ConfigurationError(
            f"{where} is of format {found!r}, and kcontrol knows {version!r}: it was written by another "
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
