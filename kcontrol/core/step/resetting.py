"""Going back: which steps can be gone back to, and the boundary that says so.

A reset reads nothing, writes nothing and changes no state. So all that it needs is that whoever opens the pipeline afterwards
can come to where the step was that is gone back to: by a checkpoint at or before it, and the steps in between that are run
again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kcontrol.core.log.keys import checkpoint_key
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    EMPTY_DIGEST,
    InputSlice,
    Layout,
    PipelineSpec,
    Reset,
    SkippedRange,
    StepBoundary,
    Token,
)


def refused_step(spec: PipelineSpec, steps: StepsView, to_step: int) -> str:
    """Why, by what is in the log of steps, the pipeline can't go back to a step, or ''."""
    where, last = f"pipeline {spec.pipeline!r}", steps.last
    if last is None:
        return f"{where} has no committed step yet, so there is nothing to take back"
    if to_step < 1:
        return (
            f"{where} can go back to a committed step, and those are numbered from 1: to begin before the first one, give it "
            f"another name, or delete it with kcontrol delete {spec.pipeline} and submit it again"
        )
    if to_step > last.step:
        return f"{where} has no step {to_step}: its last one is {last.step}"
    reset = steps.void_by(to_step)
    if reset is not None:
        return (
            f"step {to_step} of {where} is void since step {reset}, which was a reset: go back to step "
            f"{steps.made_by(reset)} or before, or to one after step {reset}"
        )
    if to_step < steps.first:
        return f"step {to_step} of {where} is no longer in the log: the oldest that is left is {steps.first} (keep_steps)"
    if 0 < steps.resized >= to_step:
        return (
            f"step {to_step} of {where} was made by other nodes, or before its layout was changed, or before an older reset "
            f"and the oldest checkpoint: go back to one after step {steps.resized}"
        )
    return _refused_state(spec, steps, to_step)


def refused_standing(spec: PipelineSpec, steps: StepsView, to_step: int) -> str:
    """Why there is nothing to take back, or ''."""
    if not stands_at(steps, to_step):
        return ""
    return f"pipeline {spec.pipeline!r} is at step {to_step} already: nothing came after it"


def stands_at(steps: StepsView, to_step: int) -> bool:
    """Whether no step after this one counts."""
    return steps.made_by(to_step) == steps.made_by(steps.step)


def refused_exchanges(spec: PipelineSpec, again: Iterable[StepBoundary]) -> str:
    """Why, by what is in the log of steps, nodes can't take once more what was sent to them in the steps that are run again, or
    ''. The definition may have been changed since by one that says it is compatible."""
    now = {each.name for each in spec.exchanges}
    for boundary in again:
        then = {each.exchange for each in boundary.layout.exchanges}
        if then != now:
            return (
                f"step {boundary.step} of pipeline {spec.pipeline!r}, which has to be run again, was made with {_named(then)}, "
                f"and its definition has {_named(now)} now: go back to a step with a checkpoint, from which none is run again, "
                "or submit the definition of then before"
            )
    return ""


def _named(exchanges: Collection[str]) -> str:
    several = ", ".join(map(repr, sorted(exchanges)))
    return f"exchange {several}" if several else "no exchange"


def crossed(again: Iterable[StepBoundary]) -> dict[str, dict[int, tuple[int, int]]]:
    """By exchange and partition, [first offset, behind the last) of what nodes take once more in steps that are run again.
    Between lie the rows of void steps, too, which nobody takes: a node takes what a boundary names."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for boundary in again:
        for piece in boundary.exchanges:
            if piece.runs:
                places = found.setdefault(piece.exchange, {})
                first, last = places.get(piece.partition, (piece.from_, piece.to))
                places[piece.partition] = min(first, piece.from_), max(last, piece.to)
    return found


def lost_rows(
    wanted: Mapping[int, tuple[int, int]], earliest: Sequence[int], latest: Sequence[int]
) -> tuple[int, int, int] | None:
    """The first partition, with the offsets that are wanted of it, that holds less than is wanted of an exchange's topic; None
    if there is none. earliest, latest: where its partitions begin and end."""
    for partition, (first, last) in sorted(wanted.items()):
        there = partition < len(earliest) and earliest[partition] <= first and last <= latest[partition]
        if not there:
            return partition, first, last
    return None


def _refused_state(spec: PipelineSpec, steps: StepsView, to_step: int) -> str:
    """State must be had from somewhere: a checkpoint, or, as long as there never was one, from the first step on."""
    if not spec.stateful or begins_at(steps, to_step) is not None:
        return ""
    oldest = (
        f"its oldest checkpoint is of step {steps.saved[0].step}"
        if steps.saved
        else (f"it has no checkpoint, and its log begins with step {steps.first}")
    )
    return (
        f"pipeline {spec.pipeline!r} keeps state, which can't be brought back to step {to_step}: {oldest}. Go back to "
        f"step {steps.saved[0].step if steps.saved else steps.first} or later"
    )


def begins_at(steps: StepsView, to_step: int) -> int | None:
    """The step after which steps are run again to come to `to_step`: the newest checkpoint at or before it, or 0 where there
    never was one. None: there is no way."""
    saved = [one.step for one in steps.saved if one.step <= to_step]
    if saved:
        return saved[-1]
    return 0 if steps.first == 1 and not steps.saved else None


def going_back(
    last: StepBoundary,
    back: StepBoundary,
    reset: Reset,
    producer: tuple[int, int],
    claim_epoch: int,
    now_ms: int,
    passed: tuple[SkippedRange, ...] = (),
) -> StepBoundary:
    """The boundary of the step that takes back all after `back`. last: the last committed one. producer: (id, epoch) of the
    transaction that it is written in. now_ms: the wall clock. passed: what is passed over on the way, because it is void."""
    ends = {(each.input, each.partition): each.to for each in passed}
    inputs = tuple(_read_to(each, ends.get((each.input, each.partition), each.to)) for each in back.inputs)
    return replace(
        back,
        step=last.step + 1,
        token=Token(claim_epoch, 0, *producer, ()),
        now_ms=max(now_ms, last.now_ms + 1),
        inputs=inputs,
        outputs=(),
        layout=Layout((), back.layout.shuffle_partitions, ()),
        opened_ms=now_ms,
        committed_ms=now_ms,
        skipped=(),
        skipped_ranges=passed,
        received_ms=0,
        work=(),
        before=None,
        late_rows=(),
        environments=(),
        exchanges=(),
        reset=reset,
    )


def _read_to(piece: InputSlice, to: int) -> InputSlice:
    return replace(piece, from_=to, to=to, records=0, digest=EMPTY_DIGEST, digest_version=1)


def passed_over(
    back: StepBoundary, void: Mapping[tuple[str, int], int], by: str, asked_ms: int, request_id: str
) -> tuple[SkippedRange, ...]:
    """What a pipeline that goes back to a step does not read again, because others that go back with it wrote it in steps that
    are void. void: by topic and partition, where that ends."""
    return tuple(
        SkippedRange(
            *(piece.input, piece.topic, piece.topic_id, piece.partition, piece.to),
            *(void[piece.topic, piece.partition], by, asked_ms, request_id),
        )
        for piece in back.inputs
        if void.get((piece.topic, piece.partition), 0) > piece.to
    )


def void_ends(void: Iterable[StepBoundary]) -> dict[tuple[str, int], int]:
    """Where what void steps wrote ends, by topic and partition."""
    found: dict[tuple[str, int], int] = {}
    for boundary in void:
        for piece in boundary.outputs:
            if piece.records:
                place = piece.topic, piece.partition
                found[place] = max(found.get(place, 0), piece.to)
    return found


def void_checkpoints(steps: StepsView, to_step: int) -> tuple[str, ...]:
    """The keys of what is dropped with the steps that it was made of."""
    return tuple(checkpoint_key(one.step) for one in steps.checkpoints if one.step > to_step)
