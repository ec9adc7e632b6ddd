"""Cuts the state of a stopped pipeline into another number of shards: the parts of the checkpoint of its last step are made
anew, by Spark, in this process.

The new parts lie beside the old ones, under names that nobody has used, and count from the moment that a record of the log of
steps names them (`layout.py`). Until then nothing of the pipeline has changed; a process that ends before leaves files that
the nodes' next sweep takes away.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from kcontrol.adapters.checkpoints.layout import parse_manifest
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS
from kcontrol.adapters.spark.internals import check_rewrites
from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.state.assembling import PartsOfNodes
from kcontrol.adapters.spark.state.holding import held_shards
from kcontrol.adapters.spark.state.resharding import ReshardedParts, refused_state
from kcontrol.core.model import Checkpoint, SavedPart
from kcontrol.core.step.assignment import Owners, saved_owners
from kcontrol.errors import CheckpointCancelledError, CheckpointError, ConfigurationError
from kcontrol.settings.scratch import scratch_directory

MB = 1_000_000
MB_PER_S = 1.0
"""Of state that is written anew, as it lies in checkpoints: a careful guess (decision 083). What it was, is said afterwards."""
START_S = 20.0
"""Until Spark has started."""
_CANCEL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Recut:
    """State to cut. shards: how many there were. owner: of each shard from now on. lives: of each node the newest that was
    heard of."""

    pipeline: str
    saved: Checkpoint
    shards: int
    owner: Owners
    lives: Mapping[int, int]

    def life_of(self, part: SavedPart) -> int:
        """Under which life a node's new part is kept: one after all that there were, so that no zombie deletes it."""
        return max(part.incarnation, self.lives.get(part.node, 0)) + 1


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Parts that were made. size_bytes: of the state in them. seconds: without the start of Spark."""

    parts: tuple[SavedPart, ...]
    size_bytes: int
    seconds: float


def estimated_s(size_bytes: int) -> float:
    """About how long it takes to cut so much state."""
    return START_S + size_bytes / MB / MB_PER_S


def refuse_uncut(pipeline: str, saved: Checkpoint, shards: int, own: Path) -> None:
    """Raise ConfigurationError if the state of a checkpoint can't be cut into other shards, and CheckpointError if it can't be
    read here. Spark is not needed for that."""
    parts = _parts_of(saved, shards, own)
    with scratch_directory("layout") as scratch:
        refused = refused_state(parts, scratch)
    if refused:
        raise ConfigurationError(f"pipeline {pipeline!r}: {refused}")


def recut(work: Recut, own: Path, master: str | None, most_s: float) -> Rewritten:
    """Make the parts of a checkpoint anew, in as many shards as `work.owner` has.

    own: where nodes of this machine have their own checkpoints. most_s: after so long it is given up. Raises ConfigurationError
    then, CheckpointError, SparkSettingError, JavaError.
    """
    find_java()
    until = CutDeadline(work, most_s)
    spark = session(f"kcontrol layout {work.pipeline}", master, hushed=True)
    try:
        check_rewrites(spark)
        with until.cancelling(spark), scratch_directory("layout") as scratch:
            return cut_parts(spark, work, own, scratch.resolve(), until)
    except (*SPARK_ERRORS, CheckpointCancelledError) as error:
        until.check()
        raise CheckpointError(
            f"pipeline {work.pipeline!r}: Spark could not write its state in {len(work.owner)} shards: {error}. Nothing was "
            "changed"
        ) from error
    finally:
        spark.stop()


def dropped(saved: Checkpoint, parts: Sequence[SavedPart], own: Path) -> None:
    """Forget parts that no record will name, as far as that is possible."""
    store, location = CheckpointStore(), placed(saved.location, own)
    for part in parts:
        with suppress(CheckpointError):
            store.drop(location, part.manifest)


def cut_parts(spark: SparkSession, work: Recut, own: Path, scratch: Path, until: CutDeadline) -> Rewritten:
    """As `recut`, with a session that there is, whose jobs nobody cancels. scratch: an empty directory."""
    began = time.monotonic()
    saved, store, location = work.saved, CheckpointStore(), placed(work.saved.location, own)
    made = ReshardedParts(spark, _parts_of(saved, work.shards, own), len(work.owner), scratch, until.check)
    made.rewrite()
    # One name for all, which was never used and never will be: whatever became of an earlier try.
    epoch = secrets.randbits(62)
    parts: list[SavedPart] = []
    try:
        for part in saved.parts:
            directory = made.part(part.node, work.owner)
            held = held_shards(directory, saved.step, made.cut)
            life, _ = parse_manifest(part.manifest)
            incarnation = work.life_of(part)
            place = PartPlace(
                *(location, work.pipeline, life.node.log_id, part.node, incarnation, epoch, saved.step)
            )
            receipt = store.save(place, directory, until.has_passed, held)
            parts.append(
                SavedPart(part.node, incarnation, receipt.manifest, receipt.files, receipt.size_bytes)
            )
    except BaseException:
        dropped(saved, parts, own)
        raise
    return Rewritten(tuple(parts), sum(each.size_bytes for each in parts), time.monotonic() - began)


def _parts_of(saved: Checkpoint, shards: int, own: Path) -> PartsOfNodes:
    manifests = {part.node: part.manifest for part in saved.parts}
    return PartsOfNodes(
        CheckpointStore(), placed(saved.location, own), saved.step, manifests, saved_owners(saved, shards)
    )


class CutDeadline:
    """Until when the state must have been cut: so many seconds from now on."""

    def __init__(self, work: Recut, most_s: float) -> None:
        self._work, self._most_s = work, most_s
        self._until = time.monotonic() + most_s

    def has_passed(self) -> bool:
        return time.monotonic() >= self._until

    def check(self) -> None:
        """Raises ConfigurationError once it is over."""
        if self.has_passed():
            raise ConfigurationError(
                f"pipeline {self._work.pipeline!r}: its state was not in {len(self._work.owner)} shards after "
                f"{self._most_s / 60:g} minutes (--max-minutes), so that was given up. Nothing was changed"
            )

    @contextmanager
    def cancelling(self, spark: SparkSession) -> Iterator[None]:
        """Meanwhile Spark's jobs are cancelled as soon as it is over: again and again, because one may begin after that."""
        done = threading.Event()
        cancelling = threading.Thread(
            target=self._cancel, args=(spark.sparkContext.cancelAllJobs, done), daemon=True
        )
        cancelling.start()
        try:
            yield
        finally:
            done.set()
            cancelling.join(_CANCEL_EVERY_S)

    def _cancel(self, cancel: Callable[[], None], done: threading.Event) -> None:
        wait_s = max(0.0, self._until - time.monotonic())
        while not done.wait(wait_s):
            with suppress(*SPARK_ERRORS):
                cancel()
            wait_s = _CANCEL_EVERY_S
