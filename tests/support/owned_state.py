"""Nodes' directories as Spark leaves them where each runs its own shards, and the checkpoint that they save.

A shard's history is made once and lies in the directory of whoever owns it, so that one node that owns all of them has in
its directory what all nodes have in theirs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore, HeldShards, PartPlace
from kcontrol.adapters.spark.internals import NOT_RUN
from kcontrol.adapters.spark.state.assembling import PartsOfNodes
from kcontrol.adapters.spark.state.holding import held_shards
from kcontrol.adapters.spark.state.lineage import StateVersion
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.step.assignment import Owners, dealt
from tests.support.spark_files import new_version, put, put_changelog, put_operator, put_snapshot

STORES = {
    "counts": {0: ("",)},
    "pairs": {0: ("left-keyToNumValues", "left-values", "right-keyToNumValues", "right-values")},
    "chained": {0: ("",), 1: ("",)},
    "total": {0: ("",)},
}
"""By query with state and operator: the names of its stores in each partition."""
ONE_GROUP = "total"
"""Has one partition, whatever the number of shards."""
SENDER = "counts.send"
"""Keeps no state."""
QUERIES = (*STORES, SENDER)


@dataclass
class History:
    """Of all shards of all queries up to a step."""

    dice: random.Random
    shards: int
    step: int
    lines: dict[tuple[str, int, int], list[list[StateVersion]]] = field(default_factory=dict)
    """By query, operator and shard: of each store, its versions."""
    snapshots: set[StateVersion] = field(default_factory=set)

    def __post_init__(self) -> None:
        for query, operators in STORES.items():
            for operator, stores in operators.items():
                for shard in range(1 if query == ONE_GROUP else self.shards):
                    self.lines[query, operator, shard] = [
                        [new_version(version) for version in range(1, self.step + 1)] for _ in stores
                    ]
        for lines in self.lines.values():
            self.snapshots |= {self.dice.choice(line) for line in lines if self.dice.random() < 0.5}

    def write(self, query: Path, shards: Sequence[int], sources: int, source: Path) -> None:
        """What Spark leaves of a query on a node that runs these shards. source: of files that differ when made again."""
        ids: dict[str, list[list[str]]] = {}
        for operator, stores in STORES.get(query.name, {}).items():
            partitions = [key for key in sorted(self.lines) if key[:2] == (query.name, operator)]
            ids[str(operator)] = [
                [line[-1].unique_id for line in self.lines[key]]
                if key[2] in shards
                else [NOT_RUN] * len(stores)
                for key in partitions
            ]
            for key in partitions:
                if key[2] in shards:
                    for name, line in zip(stores, self.lines[key], strict=True):
                        where = Path("state", str(operator), str(key[2]), name)
                        self._write_store(query / where, source / query.name / where, line)
            put_operator(query, query.parent)
        for batch in (self.step - 2, self.step - 1):
            plan = "\n".join(["v1", "{}", *([json.dumps({"step": batch + 1})] * sources)])
            put(query / "offsets" / str(batch), plan)
            told = {"nextBatchWatermarkMs": 7_000, **({"stateUniqueIds": ids} if ids else {})}
            put(query / "commits" / str(batch), "v2\n" + json.dumps(told))
        put(query / "metadata", json.dumps({"id": f"of-{query}"}))

    def _write_store(self, store: Path, source: Path, line: list[StateVersion]) -> None:
        if not source.exists():
            for at, version in enumerate(line):
                put_changelog(source, line[:at], version)
                if version in self.snapshots:
                    put_snapshot(source, version)
        for path in source.rglob("*"):
            if path.is_file() and path.suffix != ".crc":
                put(store / path.relative_to(source), path.read_bytes(), checksum=False)


@dataclass
class SavedCheckpoint:
    """Of nodes that own shards by a table, in directories under `root`."""

    root: Path
    history: History
    owner: Owners
    queries: tuple[str, ...] = QUERIES
    sources: int = 1
    tells: bool = True
    """Its manifests say which shards they hold."""
    runs_all: bool = False
    """Every node runs all partitions, those of shards that it does not own without rows."""
    manifests: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store, self.location = CheckpointStore(), str(self.root / "durable")
        for node in range(max(self.owner) + 1):
            self._save(node)

    def _save(self, node: int) -> None:
        step = self.history.step
        workdir = WorkDir(self.root / "nodes", "p", node, 1, self.queries, 100)
        workdir.prepare()
        workdir.create()
        shards = [shard for shard, each in enumerate(self.owner) if each == node or self.runs_all]
        for query in self.queries:
            self.history.write(workdir.query_path(query), shards, self.sources, self.root.parent / "once")
        pin = workdir.pin(step)
        held = held_shards(pin, step, STORES) if self.tells else HeldShards()
        place = PartPlace(self.location, "p", "log", node, 1, 7, step)
        self.manifests[node] = self.store.save(place, pin, held=held).manifest

    def pin(self, node: int) -> Path:
        """What was saved of a node."""
        return self.root / "nodes" / "p" / f"node-{node}" / "inc-1" / "pins" / f"step-{self.history.step}"

    def parts(self, owner: Owners | None = None) -> PartsOfNodes:
        return PartsOfNodes(self.store, self.location, self.history.step, self.manifests, owner or self.owner)


def whole(root: Path, history: History) -> SavedCheckpoint:
    """The same on one node."""
    return SavedCheckpoint(root, history, dealt(history.shards, 1))


def contents(directory: Path) -> Mapping[str, bytes]:
    """By path, without Hadoop's checksums."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith(".crc")
    }
