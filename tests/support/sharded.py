"""Nodes that run a query side by side, each with its own shards, beside one that runs all of it."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from kcontrol.adapters.spark.internals import execution_of
from kcontrol.adapters.spark.query.watermark import set_watermark
from kcontrol.adapters.spark.session.conf import with_setting
from kcontrol.adapters.spark.state.assembling import Assembled, PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.holding import held_shards
from kcontrol.adapters.spark.state.resharding import ReshardedParts
from kcontrol.adapters.spark.state.shards import OwnedPartitions, OwnedShards
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.step.assignment import owned_by, rebalanced, resharded
from tests.support.patience import HANG_S
from tests.support.step_frames import put_step, read_steps

SHARDS = 4
DDL = "user string, amount long, s long"
QUERY = "q"
_SHUFFLE = "spark.sql.shuffle.partitions"

Row = tuple[str, int, int]
"""A user, an amount, a time in seconds."""


@dataclass(frozen=True)
class Kind:
    """A query. build: of a frame of `DDL`. by: how its rows are exchanged. sources: how often it reads the frame."""

    build: Callable[[DataFrame], DataFrame]
    mode: str = "append"
    by: Callable[[], list[Column]] = lambda: [F.col("user")]
    sources: int = 1


@dataclass
class Node:
    """One that runs a kind of query. shards: that it owns; None: it runs all of them, as Spark does. begins_with: fills its
    directory after a step, in place of beginning with none."""

    spark: SparkSession
    root: Path
    number: int
    kind: Kind
    shards: OwnedShards | None
    incarnation: int = 1
    assignment: int = 0
    begins_with: Callable[[WorkDir], None] = WorkDir.create
    out: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    """What to go by after a step; of a node that runs all: what Spark goes by."""

    def __post_init__(self) -> None:
        self._new_life()
        self.begins_with(self.workdir)
        self._has_query = threading.Event()
        self.query: StreamingQuery | None = None
        """Spark's first batch would be an empty one if there were no step yet."""

    def _new_life(self) -> None:
        self.workdir = WorkDir(
            self.root / "work", "p", self.number, self.incarnation, [QUERY], 100, self.assignment
        )
        self.workdir.prepare()

    @property
    def directory(self) -> Path:
        return self.workdir.query_path(QUERY)

    def start(self) -> None:
        self.part = None if self.shards is None else OwnedPartitions(self.spark, QUERY, self.shards)
        shards = SHARDS if self.shards is None else self.shards.of
        with with_setting(self.spark, _SHUFFLE, str(shards)):
            frame = self.kind.build(
                read_steps(self.spark, self._input, DDL).withColumn("ts", F.timestamp_seconds("s"))
            )
            self.query = (
                frame.writeStream.outputMode(self.kind.mode)
                .option("checkpointLocation", f"file:{self.directory}")
                .foreachBatch(self._batch)
                .start()
            )
        self._has_query.set()

    @property
    def _input(self) -> Path:
        return self.root / f"in-{self.number}"

    def _batch(self, batch: DataFrame, batch_id: int) -> None:
        frame = batch if self.part is None else self.part.of_batch(batch)
        self.out[batch_id + 1] = [tuple(row) for row in frame.collect()]
        # Spark may come here before whoever has started the query has got it.
        assert self._has_query.wait(HANG_S)
        assert self.query is not None
        execution = execution_of(self.query)
        tracker = execution.watermarkTracker()
        tracker.updateWatermark(execution.lastExecution().executedPlan())
        if self.part is None:
            self.watermarks[batch_id + 1] = tracker.currentWatermark()
            return
        self.part.finish(execution, batch_id)
        if batch_id + 1 in self.watermarks:
            set_watermark(execution, self.watermarks[batch_id + 1])

    def put(self, step: int, rows: Sequence[Row]) -> None:
        if self.kind.sources > 1:
            # Asked one after the other, one of them could see the step and the other not yet.
            self.stop()
        put_step(self._input, step, rows)

    def step(self, step: int) -> Counter[tuple[Any, ...]]:
        """What comes out of rows that were put there."""
        if self.query is None:
            self.start()
        assert self.query is not None
        self.query.processAllAvailable()
        return Counter(self.out[step])

    def save(self, step: int, location: Path) -> str:
        """The node's part of a checkpoint: the name of its manifest."""
        place = PartPlace(str(location), "p", "log", self.number, self.incarnation, 1, step)
        pin = self.workdir.pin(step)
        manifest = CheckpointStore().save(place, pin, held=held_shards(pin, step, [QUERY])).manifest
        self.workdir.unpin(step)
        return manifest

    def restart(self) -> None:
        """The process has died, and comes back under the next incarnation."""
        self.stop()
        self.incarnation += 1
        self._new_life()

    def roll_back(self, step: int) -> None:
        self.stop()
        for later in [each for each in self.out if each > step]:
            (self._input / f"{later}.json").unlink()
        self.workdir.roll_back(step)

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self._has_query.clear()
        self.query = None


def state_in(directory: Path) -> set[int]:
    """Partitions of which a query's directory has state."""
    state = directory / "state"
    return {
        int(path.relative_to(state).parts[1])
        for suffix in ("changelog", "zip")
        for path in state.rglob(f"*.{suffix}")
    }


@dataclass
class Cluster:
    """Nodes with a shard table, and one that runs all beside them. seed: of the rows."""

    spark: SparkSession
    root: Path
    kind: Kind
    owner: tuple[int, ...]
    seed: int

    def __post_init__(self) -> None:
        sys.stdout.write(f"seed {self.seed}\n")
        self.random = random.Random(self.seed)
        self.whole = Node(self.spark, self.root / "whole", 0, self.kind, None)
        self.nodes = [self.node(number) for number in range(max(self.owner) + 1)]
        self.assignment = 0
        self.rows: dict[int, list[list[Row]]] = {}

    def node(self, number: int, root: str = "nodes") -> Node:
        owned = frozenset(shard for shard, node in enumerate(self.owner) if node == number)
        return Node(self.spark, self.root / root, number, self.kind, OwnedShards(owned, len(self.owner)))

    def made(self) -> list[Row]:
        """Rows of a step; in time order by and by."""
        step = max(self.rows, default=0) + 1
        return [
            (
                f"u{self.random.randrange(25)}",
                self.random.randrange(100),
                10 * step + self.random.randrange(12),
            )
            for _ in range(30)
        ]

    def exchanged(self, rows: Sequence[Row]) -> list[list[Row]]:
        """By node, the rows of its shards."""
        by = self.kind.by()
        shard = F.pmod(F.hash(*by), F.lit(len(self.owner))) if by else F.lit(0)
        frame = self.spark.createDataFrame(list(rows), DDL).withColumn("ts", F.timestamp_seconds("s"))
        shards = [row[0] for row in frame.select(shard).collect()]
        return [
            [row for row, where in zip(rows, shards, strict=True) if self.owner[where] == node.number]
            for node in self.nodes
        ]

    def step(self, rows: Sequence[Row] | None = None) -> None:
        """One step: what the nodes give together is what the one gives that runs all."""
        step = max(self.rows, default=0) + 1
        rows = self.made() if rows is None else rows
        self.rows[step] = self.exchanged(rows) if rows else [[] for _ in self.nodes]
        self.whole.put(step, rows)
        expected = self.whole.step(step)
        found: Counter[tuple[Any, ...]] = Counter()
        for node in self.nodes:
            found += self.run(node, step)
        assert found == expected

    def run(self, node: Node, step: int) -> Counter[tuple[Any, ...]]:
        node.watermarks = self.whole.watermarks
        node.put(step, self.rows[step][node.number])
        return node.step(step)

    def change(self, owner: tuple[int, ...]) -> Assembled:
        """Other nodes own the shards from now on, in directories put together of what all have saved after the last step.
        What those were made of."""
        return self._begun_with(self.saved(), owner)

    def reshard(self, shards: int) -> ReshardedParts:
        """As `change`, into another number of shards, over as many nodes."""
        before = self.saved()
        owner = rebalanced(resharded(self.owner, shards), range(len(self.nodes)))
        made = ReshardedParts(
            self.spark, before, shards, self.root / f"anew-{self.assignment + 1}", lambda: None
        )
        made.rewrite()
        manifests = {}
        for node in self.nodes:
            part = made.part(node.number, owner)
            epoch = 100 + self.assignment
            place = PartPlace(
                *(str(self.root / "durable"), "p", "log", node.number, node.incarnation, epoch, before.step)
            )
            held = held_shards(part, before.step, made.cut)
            manifests[node.number] = CheckpointStore().save(place, part, held=held).manifest
        self._begun_with(
            PartsOfNodes(CheckpointStore(), str(self.root / "durable"), before.step, manifests, owner), owner
        )
        return made

    def saved(self) -> PartsOfNodes:
        """By all nodes, after the last step."""
        step, location = max(self.rows), self.root / "durable"
        manifests = {node.number: node.save(step, location) for node in self.nodes}
        return PartsOfNodes(CheckpointStore(), str(location), step, manifests, self.owner)

    def _begun_with(self, parts: PartsOfNodes, owner: tuple[int, ...]) -> Assembled:
        step = parts.step
        lives = {node.number: node.incarnation for node in self.nodes}
        for node in self.nodes:
            node.stop()
        self.owner, self.assignment = owner, self.assignment + 1
        total = Assembled()

        def begin(workdir: WorkDir, taker: Taker) -> None:
            nonlocal total
            assert workdir.openable() == (), "what is there is of other shards"
            needs = QueryNeeds(stateful=True, cut=True, sources=self.kind.sources)
            at_hand = workdir.at_hand()

            def fill(directory: Path) -> None:
                nonlocal total
                total += parts.bring(QUERY, needs, taker, directory, at_hand) or Assembled()

            workdir.begin_with(step, fill)
            assert workdir.openable() == (step,)

        self.nodes = [
            Node(
                *(self.spark, self.root / "nodes", number, self.kind),
                OwnedShards(owned_by(owner, number), len(owner)),
                incarnation=max([*lives.values()]) + 1,
                assignment=self.assignment,
                begins_with=partial(begin, taker=Taker(number, owner)),
            )
            for number in range(max(owner) + 1)
        ]
        return total

    def stop(self) -> None:
        for node in [self.whole, *self.nodes]:
            node.stop()
