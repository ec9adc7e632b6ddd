"""Takes a stopped pipeline back to one of its steps: with its state, its positions and its watermark, in one transaction.

What is written is one step that says so, in the transaction that steps are made in, with the tombstones of the checkpoints of
void steps. Nothing else is touched: records that void steps wrote stay in the topics, and whoever reads steps is told. Each
node comes back to the step by itself when it is started, from its own disk or a checkpoint. So all that can be looked at is
looked at before anything is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.apps.kept_steps import KeptSteps
from kcontrol.apps.owned_log import owned_log
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.reset_files import unseen_files
from kcontrol.apps.specs import all_specs
from kcontrol.core.log.resets import kept
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import IN_WORK_DIR, Checkpoint, PipelineSpec, Reset, SkippedRange, StepBoundary
from kcontrol.core.step.resetting import (
    begins_at,
    crossed,
    going_back,
    lost_rows,
    passed_over,
    refused_exchanges,
    refused_standing,
    refused_step,
    void_checkpoints,
)
from kcontrol.errors import (
    AccessError,
    CheckpointError,
    ClusterError,
    CommitUnknownError,
    ConfigurationError,
    FencedError,
    HaltedError,
    InputGoneError,
    KcontrolError,
    RetriableError,
    TopicError,
)
from kcontrol.requests.deletion import refuse_while_alive
from kcontrol.requests.record import NotNowError
from kcontrol.requests.resets import ResetFacts, ResetOrder, Resets
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import ToldDelivery, is_at_work
from kcontrol.wire.addresses import is_topic

DELIVERIES = "deliveries"
"""What `left_behind` calls deliveries, which no pipeline may be called."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who reads what void steps wrote. name: a pipeline's, or `DELIVERIES`."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Together:
    """A reset that is part of the rollback of several pipelines. along: their names. void: by topic and partition, where what
    others of them wrote in void steps ends: it is not read again. request_id: of the rollback. every: all definitions there
    are, by name."""

    along: frozenset[str]
    void: Mapping[tuple[str, int], int]
    request_id: str
    every: Mapping[str, PipelineSpec]


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """A reset that can be made. back: the step that is gone back to, as it was made. last: the last one, which is void then.
    begin: the checkpoint from which steps are run again, or 0. rerun: how many those are, on a node that has not kept the
    step itself. written: by output, how many records void steps wrote. readers: who may have read them. unseen: of
    inputs that can't be looked at from here, which and why. together: of the rollback that it is part of."""

    pipeline: str
    to_step: int
    last: StepBoundary
    back: StepBoundary
    begin: int
    rerun: int
    written: Mapping[str, int]
    readers: tuple[Reader, ...]
    unseen: tuple[str, ...] = ()
    together: Together | None = None


async def plan_reset(
    cluster: ClusterSettings,
    pipeline: str,
    to_step: int,
    left_behind: Collection[str],
    own: Path | None,
    together: Together | None = None,
) -> ResetPlan:
    """What a reset to a step would take back.

    left_behind: the names of readers that are to be left as they are, although they may have read what is void then. own:
    where nodes of this machine have their own checkpoints; None: files are not looked at. together: others are taken back with
    it, and it may be at the step already. Raises NotFoundError, NotNowError (somebody works for it),
    HaltedError, CheckpointError, InputGoneError, TopicError, AccessError, and ConfigurationError: it can't be done, or not so.
    RetriableError: a broker that has to be asked is away.
    """
    async with pipeline_logs(cluster, pipeline, newest_only=True) as logs:
        return await plan_reset_of(cluster, KeptSteps(logs, to_step), to_step, left_behind, own, together)


async def plan_reset_of(
    cluster: ClusterSettings,
    read: KeptSteps,
    to_step: int,
    left_behind: Collection[str],
    own: Path | None,
    together: Together | None = None,
) -> ResetPlan:
    """As `plan_reset`, of a pipeline whose logs are open: they are read on."""
    await read.read()
    logs, clock = read.logs, SystemClock()
    await logs.listen(clock)
    refuse_while_alive(logs, clock.now_ms(), "can't be reset while it works", "Nothing was reset")
    pipeline, spec, steps = logs.pipeline, logs.spec(), logs.committed
    if steps.doubles:
        raise HaltedError(
            f"pipeline {pipeline!r} has steps that are recorded twice: see kcontrol repair {pipeline}. Nothing was reset"
        )
    _refuse(refused_step(spec, steps, to_step))
    _refuse("" if together is not None else refused_standing(spec, steps, to_step))
    begin = begins_at(steps, to_step) if spec.stateful else steps.made_by(to_step)
    assert begin is not None
    made = await read.boundaries(max(1, min(begin, steps.made_by(to_step))))
    last = made[-1]
    before = [one for one in kept(made) if one.step <= to_step]
    # The step itself may be a reset, which has positions of its own where others were taken back with it.
    back = replace(before[-1], inputs=next(one.inputs for one in made if one.step == to_step))
    void = [one for one in made if one.step > to_step]
    again = [one for one in before if one.step > begin]
    _refuse(refused_exchanges(spec, again))
    with _asking():
        await asyncio.to_thread(_refuse_gone, cluster, spec, _first_read(before, begin))
        await asyncio.to_thread(_refuse_uncrossed, cluster, spec, again)
    unseen = await asyncio.to_thread(unseen_files, spec, before, back)
    checkpoint = steps.checkpoint_of(begin) if spec.stateful else None
    if checkpoint is not None and own is not None:
        await asyncio.to_thread(_refuse_unreadable, spec, checkpoint, own)
    written = _written(void)
    along = frozenset[str]() if together is None else together.along
    every = await all_specs(cluster) if together is None else together.every
    found = await _readers(cluster, every, spec, written, to_step)
    readers = tuple(one for one in found if one.name not in along)
    _refuse_left(pipeline, readers, left_behind)
    return ResetPlan(pipeline, to_step, last, back, begin, len(again), written, readers, unseen, together)


async def reset_pipeline(cluster: ClusterSettings, plan: ResetPlan, why: str, by: str) -> StepBoundary:
    """Make a reset that was planned; the step that it is.

    Raises NotNowError when the log has gone on since, or somebody else works for the pipeline: then nothing was reset.
    """
    left, now_ms = tuple(reader.name for reader in plan.readers), SystemClock().now_ms()
    request_id, passed = uuid4().hex, tuple[SkippedRange, ...]()
    if plan.together is not None:
        request_id = plan.together.request_id
        passed = passed_over(plan.back, plan.together.void, by, now_ms, request_id)
    reset = Reset(plan.to_step, why, by, request_id, left)
    async with owned_log(cluster, plan.pipeline) as owned:
        try:
            producer, steps = await owned.fence()
            _refuse_gone_on(plan, steps)
            boundary = going_back(plan.last, plan.back, reset, producer, -1, now_ms, passed)
            void = void_checkpoints(steps, plan.to_step)
            try:
                await owned.transaction.commit_reset(*producer, boundary, owned.log.position, void)
            except CommitUnknownError:
                _, steps = await owned.fence()
                if steps.last != boundary:
                    raise
        except FencedError as error:
            raise NotNowError(
                f"pipeline {plan.pipeline!r} was started while it was being reset ({error}): stop it, then ask again. Nothing "
                "was reset"
            ) from error
    return boundary


def facts_of(plan: ResetPlan, *, made: bool) -> ResetFacts:
    """For whoever asked."""
    return ResetFacts(
        pipeline=plan.pipeline,
        reset=made,
        to_step=plan.to_step,
        step=plan.last.step + 1,
        void_from=plan.to_step + 1,
        void_to=plan.last.step,
        void_records=plan.written,
        rerun_after=plan.begin,
        rerun_steps=plan.rerun,
        left_behind=tuple(reader.name for reader in plan.readers),
        unseen=plan.unseen,
    )


def resets_of(cluster: ClusterSettings, own: Path) -> Resets:
    """Resets pipelines of a cluster. own: as in `plan_reset`."""

    async def reset(order: ResetOrder) -> ResetFacts:
        plan = await plan_reset(cluster, order.pipeline, order.to_step, order.leave_behind, own)
        if order.last_step not in (None, plan.last.step):
            raise NotNowError(
                f"pipeline {plan.pipeline!r} has come to step {plan.last.step}, and {order.last_step} was said to be its "
                "last: plan the reset anew. Nothing was reset"
            )
        if not order.only_plan:
            await reset_pipeline(cluster, plan, order.why, order.by)
        return facts_of(plan, made=not order.only_plan)

    return reset


# --- what can't be done -------------------------------------------------------------------------------------


def _refuse(why: str) -> None:
    if why:
        raise ConfigurationError(f"{why}. Nothing was reset")


@contextmanager
def _asking() -> Iterator[None]:
    """A broker that is away says nothing of whether it can be done: whoever asks again is told."""
    try:
        yield
    except (TopicError, AccessError):
        raise
    except ClusterError as error:
        raise RetriableError(f"{error} Nothing was reset") from error


def _refuse_gone_on(plan: ResetPlan, steps: StepsView) -> None:
    if steps.last != plan.last:
        raise NotNowError(
            f"pipeline {plan.pipeline!r} has gone on from step {plan.last.step} to {steps.step} while it was being reset: stop "
            "it, then ask again. Nothing was reset"
        )


def _first_read(before: Sequence[StepBoundary], begin: int) -> dict[tuple[str, int], tuple[str, int]]:
    """By input and partition: topic id, and the first offset that is read again, or next."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for boundary in before:
        for piece in boundary.inputs:
            place = (piece.input, piece.partition)
            if boundary.step == begin:
                found[place] = (piece.topic_id, piece.to)
            else:
                found.setdefault(place, (piece.topic_id, piece.from_))
    return found


def _refuse_gone(
    cluster: ClusterSettings, spec: PipelineSpec, first: Mapping[tuple[str, int], tuple[str, int]]
) -> None:
    """Input that is needed, topics that are written to, and those of exchanges must be there as they were."""
    admin = TopicAdmin(cluster)
    written = {each.topic: each.topic_id for each in spec.outputs}
    written |= {each.topic: each.topic_id for each in spec.exchanges}
    topics = [*dict.fromkeys((*(each.topic for each in spec.inputs if is_topic(each.topic)), *written))]
    there = admin.look(topics)
    for name in topics:
        found = there[name]
        if isinstance(found, str):
            raise TopicError(f"{found}. Nothing was reset")
        if found is None or written.get(name, found.topic_id) != found.topic_id:
            raise TopicError(
                f"pipeline {spec.pipeline!r}: topic {name!r} is not there any more, or was made anew: it can't go on with it, "
                "from whichever step. Nothing was reset"
            )
    for item in spec.inputs:
        wanted = {partition: of for (name, partition), of in first.items() if name == item.name}
        if not wanted or not is_topic(item.topic):
            continue
        state = there[item.topic]
        assert state is not None
        assert not isinstance(state, str)
        earliest = admin.offsets(item.topic, state.partitions).earliest
        for partition, (topic_id, offset) in sorted(wanted.items()):
            if topic_id != state.topic_id or partition >= len(earliest) or earliest[partition] > offset:
                raise InputGoneError(
                    f"pipeline {spec.pipeline!r}: input {item.name!r} (topic {item.topic!r}, partition {partition}) is needed "
                    f"from offset {offset} on and begins with {earliest[partition] if partition < len(earliest) else 'none'}: "
                    "go back to a later step. Nothing was reset"
                )


def _refuse_uncrossed(cluster: ClusterSettings, spec: PipelineSpec, again: Sequence[StepBoundary]) -> None:
    """What nodes have sent each other in steps that are run again must be there: they run them alone, from that."""
    admin, wanted = TopicAdmin(cluster), crossed(again)
    for exchange in (each for each in spec.exchanges if each.name in wanted):
        partitions = 1 + max(wanted[exchange.name])
        found = admin.get(exchange.topic, f"pipeline {spec.pipeline!r}, exchange {exchange.name!r}")
        ends = admin.offsets(exchange.topic, min(partitions, found.partitions))
        lost = lost_rows(wanted[exchange.name], ends.earliest, ends.latest)
        if lost is not None:
            partition, first, last = lost
            raise InputGoneError(
                f"pipeline {spec.pipeline!r}: of what its nodes sent through exchange {exchange.name!r} in steps "
                f"{again[0].step} to {again[-1].step}, which are run again, offsets {first} to {last} of partition {partition} "
                f"of topic {exchange.topic!r} are not all there any more: go back to a step with a checkpoint, from which none "
                "is run again. Nothing was reset"
            )


def _refuse_unreadable(spec: PipelineSpec, checkpoint: Checkpoint, own: Path) -> None:
    """As far as this machine can tell: what lies beside nodes' working directories may be elsewhere."""
    if checkpoint.location == IN_WORK_DIR:
        return
    store, location = CheckpointStore(), placed(checkpoint.location, own)
    try:
        missing = [part.node for part in checkpoint.parts if not store.readable(location, part.manifest)]
        why = "not all of its files are there"
    except KcontrolError as error:
        missing, why = [part.node for part in checkpoint.parts], str(error)
    if missing:
        raise CheckpointError(
            f"pipeline {spec.pipeline!r}: the checkpoint of step {checkpoint.step}, from which it would go back to, can't be "
            f"read here, of node {', '.join(map(str, missing))}: {why}. Give this host access to {checkpoint.location}, or go "
            "back to a step after another checkpoint. Nothing was reset"
        )


# --- who reads it -------------------------------------------------------------------------------------------


def _written(void: Sequence[StepBoundary]) -> dict[str, int]:
    """By topic."""
    found: Counter[str] = Counter()
    for boundary in void:
        for piece in boundary.outputs:
            found[piece.topic] += piece.records
    return {topic: records for topic, records in found.items() if records}


async def _readers(
    cluster: ClusterSettings,
    every: Mapping[str, PipelineSpec],
    spec: PipelineSpec,
    written: Mapping[str, int],
    to_step: int,
) -> tuple[Reader, ...]:
    """Pipelines that read what void steps wrote, and deliveries that have applied one, or may before the reset is committed."""
    found = []
    for name, other in sorted(every.items()):
        topics = sorted({each.topic for each in other.inputs} & set(written))
        if name != spec.pipeline and topics:
            found.append(Reader(name, f"pipeline {name!r} reads topic {', '.join(map(repr, topics))}"))
    with _asking():
        told = await asyncio.to_thread(DeliveryNotes(cluster, spec.pipeline).read)
    now_ms = SystemClock().now_ms()
    beyond = [_beyond(each, to_step, now_ms) for each in told]
    if any(beyond):
        found.append(Reader(DELIVERIES, f"deliveries: {'; '.join(each for each in beyond if each)}"))
    return tuple(found)


def _beyond(told: ToldDelivery, to_step: int, now_ms: int) -> str:
    """What is to be said of a delivery that has void steps, or may have by the time that they are void; '': it has none."""
    who = f"{told.output} to {told.target}"
    if told.step > to_step:
        return f"{who} has step {told.step}"
    if told.step < 0:
        return f"{who} ({told.state}) may have any step"
    if is_at_work(told, now_ms):
        return f"{who} is at work and has step {told.step}: stop it, or it may go on to void ones"
    return ""


def _refuse_left(pipeline: str, readers: Sequence[Reader], left_behind: Collection[str]) -> None:
    left = [reader for reader in readers if reader.name not in left_behind]
    if left:
        options = " ".join(f"--leave-behind {reader.name}" for reader in left)
        raise ConfigurationError(
            f"pipeline {pipeline!r} can't be reset before it is known what becomes of those who have read what would be void: "
            f"{'; '.join(reader.what for reader in left)}. They can't un-read it: put them right yourself, by a reset or by "
            f"making them anew, and say that this is meant with {options}. Nothing was reset"
        )
