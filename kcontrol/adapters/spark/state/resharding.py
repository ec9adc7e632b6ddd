"""The state of a pipeline in another number of shards: a checkpoint's parts are read, and parts like them are made.

Of each query the shards of all nodes are put together in one directory (`assembling`), and Spark writes what it has there
into another one, as the state after the same step (decision 083). Nothing of the pipeline runs for that: no batch is made, so
batches and steps stay what they were, and what the next step finds is what it would have found had there been so many shards
from the beginning. What was written is read again and compared with what was there, before anybody gets it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from kcontrol.adapters.spark.internals import AS_STORED, StoreIds, rewrite_state
from kcontrol.adapters.spark.state.assembling import PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import (
    StatefulOperator,
    operator_files,
    operators,
    record_with_all_ids,
    record_with_ids,
    with_partitions,
    with_shuffle_partitions,
)
from kcontrol.adapters.spark.state.lineage import STATE
from kcontrol.adapters.spark.state.linking import fit_restored
from kcontrol.adapters.spark.state.pinning import OPERATOR_METADATA, needed_files, store_of
from kcontrol.core.step.assignment import Owners
from kcontrol.errors import CheckpointDamagedError, CheckpointError, ConfigurationError

_REWRITTEN = frozenset(
    {
        "stateStoreSave",
        "dedupe",
        "dedupeWithinWatermark",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    }
)
"""Operators whose state Spark 4.3 can tell the partitions of (StatePartitionKeyExtractorFactory)."""
_VARIABLES = frozenset({"ValueState", "ListState", "MapState", "TimerState"})
"""Kinds of variables of a transformWithState of which it can."""


def refused_state(parts: PartsOfNodes, scratch: Path) -> str:
    """Why the state of a checkpoint can't be cut into other shards, naming query and operator, or ''. scratch: an empty
    directory. Raises CheckpointError."""
    for query, nodes in sorted(parts.with_state().items()):
        if not all(parts.held(node)[query].cut for node in nodes):
            return (
                f"query {query!r} keeps state of the partitions that each node reads, not behind an exchange: it is not "
                "divided into shards"
            )
        moved = [
            node for node in nodes for _, shard in parts.held(node)[query].ids if parts.owner[shard] != node
        ]
        if moved:
            return (
                f"query {query!r} moves its rows between tasks after its state (a sort, a union, a repartition), so each node "
                "runs all of its shards, and not its own alone: leave that out, or go to one node first"
            )
        for operator in _operators(parts, query, scratch):
            refused = _refused(operator)
            if refused:
                return f"query {query!r}, operator {operator.number} ({operator.name}): {refused}"
    return ""


def _operators(parts: PartsOfNodes, query: str, scratch: Path) -> Sequence[StatefulOperator]:
    parts.bring_plain(query, parts.nodes[0], scratch)
    return operators(scratch / query / STATE, batch_of(scratch / query, parts.step))


def _refused(operator: StatefulOperator) -> str:
    if operator.name not in _REWRITTEN:
        return "Spark can't tell to which partition a row of its state belongs, so it can't be cut into other shards"
    unknown = sorted(kind for kind in operator.variables.values() if kind not in _VARIABLES)
    if unknown:
        return f"Spark can't cut variables of kind {', '.join(unknown)} into other shards"
    return ""


class ReshardedParts:
    """The parts of one checkpoint in so many shards. directory: empty, on a disk with room for the state twice. check: asked
    between two queries and stores, may raise.

    All methods raise CheckpointError.
    """

    def __init__(
        self,
        spark: SparkSession,
        parts: PartsOfNodes,
        shards: int,
        directory: Path,
        check: Callable[[], None],
    ) -> None:
        self._spark, self._parts, self._shards, self._directory, self._check = (
            spark,
            parts,
            shards,
            directory,
            check,
        )
        self._ids: dict[str, dict[int, StoreIds]] = {}
        self.cut = tuple(sorted(parts.with_state()))
        """Queries with state."""

    def rewrite(self) -> None:
        """All state, query by query. What was read of one goes before the next is."""
        for query in self.cut:
            self._check()
            source, target = self._directory / "before" / query, self._directory / "after" / query
            all_of_it = Taker(self._parts.nodes[0], (self._parts.nodes[0],) * len(self._parts.owner))
            self._parts.bring(query, QueryNeeds(stateful=True, cut=True), all_of_it, source.parent)
            self._ids[query] = rewritten(
                self._spark, source, target, self._parts.step, self._shards, self._check
            )
            shutil.rmtree(source)

    def part(self, node: int, owner: Owners) -> Path:
        """The part of a node that owns shards by a table: a directory for each query that it has. What it takes has a place in
        it afterwards."""
        made = self._directory / f"part-{node}"
        for query in self._parts.held(node):
            self._parts.bring_plain(query, node, made)
            directory = made / query
            for plan in _numbered(directory / "offsets"):
                _replace(plan, with_shuffle_partitions(plan, self._shards))
            if query in self._ids:
                self._fill(query, directory, node, owner)
        return made

    def _fill(self, query: str, directory: Path, node: int, owner: Owners) -> None:
        ids = self._ids[query]
        _tell_partitions(directory, self._shards)
        batch = batch_of(directory, self._parts.step)
        record = directory / "commits" / str(batch)
        _replace(record, record_with_all_ids(record, ids))
        own = {
            (operator, shard): stores
            for operator, partitions in ids.items()
            for shard, stores in enumerate(partitions)
            if owner[shard] == node
        }
        _replace(record, record_with_ids(record, own))
        written = self._directory / "after" / query
        for path in (path.relative_to(written) for path in written.rglob("*") if path.is_file()):
            if store_of(path) in own:
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                os.link(written / path, directory / path)
        try:
            needed_files(directory, batch)
        except (FileNotFoundError, ConfigurationError) as error:
            raise CheckpointError(
                f"query {query!r}: what Spark has written of its state is not whole: {error}; nothing was changed"
            ) from error


def rewritten(
    spark: SparkSession, source: Path, target: Path, step: int, shards: int, check: Callable[[], None]
) -> dict[int, StoreIds]:
    """Write the state of a query after a step, which is in one directory, into another one that is not there yet, in so many
    shards: by operator and shard the ids of what was written.

    Raises CheckpointError if what was written is not what was there, and what Spark raises.
    """
    batch = batch_of(source, step)
    record = source / "commits" / str(batch)
    fit_restored(source, source.parent)
    _copy_plain(source, target)
    for plan in _numbered(target / "offsets"):
        _replace(plan, with_shuffle_partitions(plan, shards))
    ids = rewrite_state(spark, f"file:{source}", f"file:{target}", batch, shards)
    (target / "commits").mkdir()
    (target / "commits" / str(batch)).write_text(record_with_all_ids(record, ids), encoding="utf-8")
    _tell_partitions(target, shards)
    for operator in operators(source / STATE, batch):
        for store in operator.stores:
            check()
            was, now = (_rows(spark, each, step, operator.number, store) for each in (source, target))
            if was != now:
                raise CheckpointError(
                    f"query {source.name!r}, operator {operator.number} ({operator.name}): its state had {was[0]} rows and has "
                    f"{now[0]} in other shards, or they are others: Spark has not written it as it was. Nothing was changed"
                )
    return ids


def _rows(spark: SparkSession, query: Path, step: int, operator: int, store: str) -> Row:
    """How many rows a state store has, and a sum over them."""
    options = {
        "batchId": str(batch_of(query, step)),
        "operatorId": str(operator),
        "storeName": store,
        AS_STORED: "true",
    }
    frame = spark.read.format("statestore").options(**options).load(f"file:{query}")
    told = sf.xxhash64("key_bytes", "value_bytes", "column_family_name").cast("decimal(38,0)")
    found = frame.select(told.alias("told")).agg(sf.count("*"), sf.sum("told")).first()
    if found is None:
        raise CheckpointDamagedError(f"Spark says nothing of the state in {query}")
    return found


def _copy_plain(source: Path, target: Path) -> None:
    """All of a query but its state stores and the record of its batch."""
    for path in source.rglob("*"):
        place = path.relative_to(source)
        if path.is_dir() or place.parts[0] == "commits" or store_of(place) is not None:
            continue
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / place)
        if OPERATOR_METADATA in place.parts:
            text = path.read_bytes().replace(str(source).encode(), str(target).encode())
            (target / place).write_bytes(text)


def _tell_partitions(query: Path, shards: int) -> None:
    """Have what is written down of a query's operators say how many partitions they have: as Spark does, also where there is
    one, of one group."""
    for file in operator_files(query / STATE):
        _replace(file, with_partitions(file, shards))


def _numbered(log: Path) -> Iterable[Path]:
    return [path for path in log.iterdir() if path.name.isdecimal()] if log.is_dir() else []


def _replace(path: Path, text: str) -> None:
    """A checksum would be of what it was."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink()
    path.write_text(text, encoding="utf-8")
