"""A node's engine without Spark that passes records on with a running number (`tests/support/tallies.py`), and so keeps state.

Only Spark is missing. The state lies in the node's working directory as Spark would leave it there, batch by batch, store by
store, and what keeps, pins, saves, restores and drops it is what does so for Spark's: `WorkDir`, `BatchLog`, `NodeParts` and
the store of checkpoints. A replay is held to the log as Spark's is.
"""

from __future__ import annotations

import asyncio
import json
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.regions.relay import RelayEngine
from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.spark.engine.parts import NodeParts
from kcontrol.adapters.spark.state.assembling import QueryNeeds
from kcontrol.adapters.spark.state.batch_log import BatchLog
from kcontrol.adapters.spark.state.lineage import STATE, StateVersion
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import (
    Checkpoint,
    FailureKind,
    InputRange,
    PipelineSpec,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.differences import differences, part_of
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.spark_files import new_version
from tests.support.tallies import NOTHING, Source, Tallies, Tally, counted

RETAINED = 20
"""Steps whose state stays in the working directory: who goes back further needs a checkpoint."""
_OPERATOR = 0
_CONTENT = "tallies.json"


class CountingEngine(RelayEngine):
    """Of node 0, its only one. incarnation: of its life. work_dir: as a node's. log_id: of its steps topic."""

    def __init__(
        self, settings: ClusterSettings, spec: PipelineSpec, incarnation: int, work_dir: Path, log_id: str
    ) -> None:
        super().__init__(settings, spec)
        self._query, self._shards = spec.queries[0], spec.layout.shuffle_partitions
        where = work_dir / log_id, spec.pipeline, 0, incarnation
        self._directory = WorkDir(*where, [self._query], RETAINED, spec.assignment)
        self._directory.prepare()
        place = spec.checkpoint.location, spec.pipeline, log_id, 0, incarnation, own_checkpoints(work_dir)
        needs = {self._query: QueryNeeds(stateful=True, cut=True, sources=1)}
        self._parts = NodeParts(CheckpointStore(), self._directory, *place, needs, owners_of(spec))
        self._turn = threading.Lock()
        """Of a thread: who was cancelled while it works does not wait for it, and whatever is asked next does."""
        self._log: BatchLog | None = None
        self._tallies: dict[Source, Tally] = {}
        self._attempt: tuple[int, dict[Source, Tally], tuple[tuple[str, ...], ...]] | None = None
        """The step that was run last, what it led to, and the ids under which that was stored."""

    # --- the port -------------------------------------------------------------------------------------------

    def openable(self) -> tuple[int, ...]:
        return self._directory.openable()

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        return await self._parts.restorable(checkpoints)

    async def open(self, step: int, create: bool = False, checkpoint: Checkpoint | None = None) -> None:
        await self._call(lambda: self._open(step, create, checkpoint))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        result = await super().run_step(work, expected)
        if expected is not None:
            wrong = differences(expected, part_of(expected, self._spec, 0), work, result)
            if wrong:
                raise StepFailedError(FailureKind.DIGEST, str(wrong[0]))
        return result

    async def finish_step(self, step: int, *_: object) -> None:
        await self._call(lambda: self._finish(step))

    async def pin(self, step: int) -> None:
        await self._call(lambda: self._parts.pin(step))

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        return await self._parts.save(step, claim_epoch, location)

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        await self._parts.drop(kept)

    async def close(self) -> None:
        await self._call(lambda: None)
        await super().close()

    # --- in threads, one at a time --------------------------------------------------------------------------

    async def _call(self, work: Callable[[], None]) -> None:
        def turn() -> None:
            with self._turn:
                work()

        await asyncio.to_thread(turn)

    def _open(self, step: int, create: bool, checkpoint: Checkpoint | None) -> None:
        self._attempt = self._log = None
        if create or step == 0:
            self._directory.create()
        else:
            if checkpoint is not None and step not in self._directory.openable():
                self._parts.restore(checkpoint, _never_begun)
            if step not in self._directory.openable():
                raise StepFailedError(FailureKind.LOST, f"step {step} is not in the working directory")
            self._directory.roll_back(step)
        log = BatchLog(self._directory.query_path(self._query), 1, RETAINED)
        log.open(step)
        self._tallies = {}
        for shard, ids in enumerate(log.ids().get(_OPERATOR, ())):
            self._tallies |= read_store(self._store(shard), StateVersion(log.version, ids[0]))
        self._log, self._step = log, step

    def _relay(self, work: StepWork, writes: bool) -> StepResult:
        with self._turn:
            return self._run(work, writes)

    def _run(self, work: StepWork, writes: bool) -> StepResult:
        if self._log is None or work.step <= self._step:
            raise StepFailedError(FailureKind.LOST, f"step {work.step} can't follow step {self._step}")
        self._made = dict(self._tallies)
        result = super()._relay(work, writes)
        versions = [new_version(self._log.version + 1) for _ in range(self._shards)]
        for shard, version in enumerate(versions):
            mine = {
                source: tally for source, tally in self._made.items() if source[1] % self._shards == shard
            }
            write_store(self._store(shard), version, mine)
        self._attempt = work.step, self._made, tuple((each.unique_id,) for each in versions)
        return result

    def _passed_on(self, part: InputRange, values: Sequence[bytes]) -> list[bytes]:
        source = part.input, part.partition
        written, self._made[source] = counted(self._spec.pipeline, values, self._made.get(source, NOTHING))
        return written

    def _finish(self, step: int) -> None:
        if self._log is None or self._attempt is None or self._attempt[0] != step:
            raise StepFailedError(FailureKind.LOST, f"step {step} is not the one that ran")
        _, self._tallies, ids = self._attempt
        self._log.write(step, "{}", {_OPERATOR: ids})
        self._step, self._attempt = step, None
        for shard in range(self._shards):
            forget_stores(self._store(shard), self._log.version - RETAINED - 1)

    def _store(self, shard: int) -> Path:
        return self._directory.query_path(self._query) / STATE / str(_OPERATOR) / str(shard)


def write_store(store: Path, version: StateVersion, tallies: Tallies) -> None:
    """As a snapshot of Spark's that shares no file with another."""
    store.mkdir(parents=True, exist_ok=True)
    content = [[name, partition, each.rows, each.word] for (name, partition), each in tallies.items()]
    made = store / f".{version.snapshot}.tmp"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("metadata", "v1\n{}")
        archive.writestr(_CONTENT, json.dumps(content))
    made.replace(store / version.snapshot)


def read_store(store: Path, version: StateVersion) -> Tallies:
    """Raises FileNotFoundError."""
    with zipfile.ZipFile(store / version.snapshot) as archive:
        content = json.loads(archive.read(_CONTENT))
    return {(name, partition): Tally(rows, word) for name, partition, rows, word in content}


def forget_stores(store: Path, up_to: int) -> None:
    """Versions up to this one, of steps that count and of others."""
    for path in store.iterdir():
        number = path.name.partition("_")[0]
        if number.isdecimal() and int(number) <= up_to:
            path.unlink()


def _never_begun(query: str, _: Path) -> None:
    raise AssertionError(f"the state of {query!r} is in every checkpoint")
