"""Changes the layout of a pipeline that is stopped: which nodes there are, how many shards, and who owns, reads and writes
what from the next step on.

What is written is one record in the log of steps, in the transaction that steps are made in. So whoever made steps before is
fenced, all that was committed is read before anything is decided, and a change that meets with anything else leaves no trace.
No file is copied: each node begins from what all of them have saved; or, where there are other shards, from what was made of
that before the record was written (`resharding.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Literal
from uuid import uuid4

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.resharding import refuse_uncut
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import Assignment, Checkpoint, PipelinePhase, PipelineSpec, SavedPart
from kcontrol.core.step.assignment import NODES_PER_SHARD, ShardMove, dynamic_shards, saved_owners
from kcontrol.core.step.layout_change import LayoutChange, as_made, changed, refused_change, refused_shards
from kcontrol.definition.exchanges import SEND
from kcontrol.errors import CommitUnknownError, ConfigurationError, FencedError, HaltedError, KcontrolError
from kcontrol.requests.deletion import refuse_while_alive
from kcontrol.requests.layout_requests import refuse_unshared
from kcontrol.requests.lost_nodes import LostNode
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.life import life_of

_TIMEOUT_MS = 60_000
"""Of the transaction, in which one record is written."""


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """A change that can be made. step: the last one by the layout before. bytes_of: what of the checkpoint is of each shard
    that there is now; empty where that could not be told. stateful: files move. saved: the checkpoint of the step, of a
    pipeline with state. lives: by node, the newest that was heard of."""

    pipeline: str
    number: int
    step: int
    change: LayoutChange
    stateful: bool
    bytes_of: Mapping[int, int]
    saved: Checkpoint | None = None
    lives: Mapping[int, int] = field(default_factory=dict)
    replaced: tuple[int, ...] = ()
    """Nodes that are to be other processes, of a pipeline that runs."""
    lost: LostNode | None = None
    """The node that is left out, or whose number is started elsewhere for that."""
    copied_bytes: int = -1
    """Of a change that was made while the pipeline ran: as many as had to be; -1: not known."""

    @property
    def moved_bytes(self) -> int:
        """-1: that could not be told."""
        if not self.stateful:
            return 0
        if self.copied_bytes >= 0:
            return self.copied_bytes
        return sum(bytes_moved(self, move) or 0 for move in self.change.moves) if self.bytes_of else -1

    @property
    def rewritten_bytes(self) -> int:
        """Of state that is to be written anew; -1: that could not be told."""
        if self.saved is None or not self.change.cuts:
            return 0
        return sum(self.bytes_of.values()) if self.bytes_of else -1


async def plan_layout(
    cluster: ClusterSettings,
    pipeline: str,
    nodes: int | None,
    without: int | None,
    own: Path,
    shards: int | Literal["auto"] | None = None,
) -> LayoutPlan:
    """What would become of the pipeline's layout with so many nodes, or without one of them; or with so many shards.

    own: where nodes of this machine have their own checkpoints. shards: 'auto': as many as fit the nodes. Raises
    NotFoundError, NotNowError (somebody works for it), HaltedError, CheckpointError, and ConfigurationError: it can't be done
    right.
    """
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        clock = SystemClock()
        await logs.listen(clock)
        refuse_while_alive(
            logs, clock.now_ms(), "can't have its layout changed while it works", "Nothing was changed"
        )
        life = life_of(logs, clock.now_ms())
        if life.phase == PipelinePhase.HALTED:
            raise HaltedError(
                f"pipeline {pipeline!r} has halted ({life.reason}): put that right and let it go on, then stop it, before its "
                "layout is changed"
            )
        spec, steps = logs.spec(), logs.committed
        _refuse_unfit(spec, steps)
        now = _in_force(spec, steps)
        change = _wanted(now, spec, nodes, without, shards)
        saved = steps.saved_of(steps.step) if spec.stateful else None
        if saved is not None and change.nodes == 1 and now.nodes > 1:
            await asyncio.to_thread(refuse_states_between, spec, saved, own)
        if saved is not None and (change.moves or change.cuts):
            refuse_unshared(spec, logs.view)
        if saved is not None and change.cuts:
            await asyncio.to_thread(refuse_uncut, pipeline, saved, change.shards_before, own)
        sizes = (
            {} if saved is None else await asyncio.to_thread(bytes_by_shard, saved, change.shards_before, own)
        )
        number = 1 if steps.assignment is None else steps.assignment.number + 1
        lives = dict(logs.view.incarnations)
        return LayoutPlan(pipeline, number, steps.step, change, spec.stateful, sizes, saved, lives)


def _wanted(
    now: PipelineSpec,
    submitted: PipelineSpec,
    nodes: int | None,
    without: int | None,
    shards: int | Literal["auto"] | None,
) -> LayoutChange:
    if shards is not None:
        if shards == "auto":
            shards = dynamic_shards(now.nodes, NODES_PER_SHARD, now.layout.shuffle_partitions)
        refused = refused_shards(replace(now, kept_in_place=submitted.kept_in_place), shards)
        if refused:
            raise ConfigurationError(refused)
        return changed(now, now.nodes, shards=shards)
    wanted = now.nodes - 1 if nodes is None else nodes
    refused = refused_change(now, submitted, wanted, without)
    if refused:
        raise ConfigurationError(refused)
    return changed(now, wanted, without)


async def change_layout(
    cluster: ClusterSettings, plan: LayoutPlan, parts: tuple[SavedPart, ...] = ()
) -> Assignment:
    """Make a change that was planned; the record of it. parts: with other shards, what nodes with state are to open.

    Raises NotNowError when the log has gone on since, or somebody else works for the pipeline: then nothing was changed.
    """
    assignment = plan.change.recorded(
        plan.pipeline,
        plan.number,
        plan.step,
        request_id=uuid4().hex,
        moved_bytes=plan.moved_bytes,
        now_ms=SystemClock().now_ms(),
        parts=parts,
    )
    async with _owned(cluster, plan.pipeline) as (transaction, log):
        try:
            producer, steps = await _fenced(plan.pipeline, transaction, log)
            _refuse_gone_on(plan, steps)
            try:
                await transaction.commit_assignment(*producer, assignment, log.position)
            except CommitUnknownError:
                _, steps = await _fenced(plan.pipeline, transaction, log, steps)
                if steps.assignment != assignment:
                    raise
        except FencedError as error:
            raise NotNowError(
                f"pipeline {plan.pipeline!r} was started while its layout was being changed ({error}): stop it, then ask "
                "again. Nothing was changed"
            ) from error
    return assignment


# --- what can't be done -------------------------------------------------------------------------------------


def _refuse_unfit(spec: PipelineSpec, steps: StepsView) -> None:
    where = f"pipeline {spec.pipeline!r}"
    if steps.doubles:
        raise HaltedError(f"{where} has steps that are recorded twice: see kcontrol repair {spec.pipeline}")
    if steps.step == 0:
        raise ConfigurationError(
            f"{where} has no committed step yet, so nothing is to be moved: start it with as many nodes as you like"
        )
    if not spec.stateful:
        return
    if not spec.checkpoint.location:
        raise ConfigurationError(
            f"{where} keeps state and has no place for checkpoints, from which new nodes could take it: give its definition "
            "checkpoint=kcontrol.Checkpoint(LOCATION), start it, and stop it again"
        )
    if steps.saved_of(steps.step) is None:
        newest = steps.saved[-1].step if steps.saved else "none"
        raise ConfigurationError(
            f"{where}: its last step is {steps.step}, and the newest that is saved is {newest}: start it as it "
            f"was and stop it with kcontrol stop {spec.pipeline}, which saves the last step. A node whose host is lost is left "
            "out while it runs: start the others, and ask for --without then"
        )


def refuse_states_between(spec: PipelineSpec, saved: Checkpoint, own: Path) -> None:
    """On one node what is behind an exchange is one query with what is before it, so their states can't lie apart. Whether
    they do is what the parts say, if they can be read here; if not, the node that is given them finds out."""
    store, location = CheckpointStore(), placed(saved.location, own)
    try:
        cut = {query for part in saved.parts for query in store.manifest(location, part.manifest).cut}
    except (KcontrolError, OSError):
        return
    for query in sorted(query for query in cut if query.endswith(SEND)):
        raise ConfigurationError(
            f"pipeline {spec.pipeline!r}: what is sent through exchange {query.removesuffix(SEND)!r} comes from a query that "
            "keeps state, which on one node would be one query with what is behind the exchange: its state can't be put "
            "together with the other yet. Ask for two nodes at least"
        )


def _refuse_gone_on(plan: LayoutPlan, steps: StepsView) -> None:
    number = 1 if steps.assignment is None else steps.assignment.number + 1
    saved = not plan.stateful or steps.saved_of(plan.step) is not None
    if steps.step != plan.step or number != plan.number or not saved:
        raise NotNowError(
            f"pipeline {plan.pipeline!r} has gone on to step {steps.step} while its layout was being changed after step "
            f"{plan.step}: stop it, then ask again. Nothing was changed"
        )


# --- what is there ------------------------------------------------------------------------------------------


def _in_force(spec: PipelineSpec, steps: StepsView) -> PipelineSpec:
    assignment = steps.assignment
    if assignment is None:
        # A pipeline without state may have been given other nodes since its last step.
        return spec
    return as_made(spec, assignment.nodes, assignment)


def bytes_by_shard(saved: Checkpoint, shards: int, own: Path) -> dict[int, int]:
    """By shard, as far as this machine can read what was saved; {} if it can't."""
    store, location = CheckpointStore(), placed(saved.location, own)
    sizes: Counter[int] = Counter(dict.fromkeys(range(shards), 0))
    owners = saved_owners(saved, shards)
    try:
        for part in saved.parts:
            held = store.manifest(location, part.manifest).shard_bytes
            sizes.update({shard: size for shard, size in held.items() if owners[shard] == part.node})
    except (KcontrolError, OSError):
        return {}
    return dict(sizes)


def bytes_moved(plan: LayoutPlan, move: ShardMove) -> int | None:
    """Of one shard, about; None: that could not be told."""
    if not plan.bytes_of:
        return None
    before = len(plan.bytes_of)
    return plan.bytes_of.get(move.shard % before, 0) * before // plan.change.finer


# --- the transaction ----------------------------------------------------------------------------------------


@asynccontextmanager
async def _owned(
    cluster: ClusterSettings, pipeline: str
) -> AsyncIterator[tuple[KafkaTransaction, KafkaStepsLog]]:
    transaction, log = KafkaTransaction(cluster, pipeline), KafkaStepsLog(cluster, pipeline)
    try:
        yield transaction, log
    finally:
        await asyncio.gather(transaction.close(), log.close())


async def _fenced(
    pipeline: str, transaction: KafkaTransaction, log: KafkaStepsLog, read: StepsView | None = None
) -> tuple[tuple[int, int], StepsView]:
    """The producer, and all that is committed. read: what was read before."""
    producer = await transaction.init_producer(_TIMEOUT_MS)
    if read is None:
        newest = await log.begin_at_checkpoint()
        read = StepsView(pipeline) if newest is None else StepsView.begun_at(pipeline, newest)
    return producer, reduce(evolve, await log.read_settled(transaction.log_end), read)
