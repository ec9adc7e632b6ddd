"""Spark's files that kcontrol reads or writes, each in the one version that it knows.

As in OffsetSeqLog.scala, CommitLog.scala and StateStoreChangelog.scala of Spark 4.3. A plan or record of
another version is refused by name, for what it means would be a guess. State files are only copied: those
that read otherwise are taken whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    """By operator and partition, the ids of its state stores' versions; empty where Spark keeps none, () for a partition
    that was not run.

    Raises FileNotFoundError, and ConfigurationError for a version that is not known.
    """
    told = json.loads((_lines(record, COMMITS_VERSION) or ["{}"])[0])
    return {
        (operator, str(partition)): tuple(each for each in ids if each not in ("", NOT_RUN))
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
