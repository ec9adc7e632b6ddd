"""What became of records whose offsets committed steps have passed: read, or not, and why not.

A boundary says from where to where a step read each partition and how many records it found there, and how
many of each input it left out because they could not be parsed. As many records as offsets: each was read.
Else Kafka is asked what the offset holds. What can't be told from both is said to be so, in a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from kcontrol.core.model import InputSlice, InputSpec, PipelineSpec, StepBoundary
from kcontrol.sessions.ports import Held, RecordLook
from kcontrol.views.completion import Completion, CompletionState
from kcontrol.views.look_limits import LOOKS_S, MAX_LOOK_OFFSETS

BoundaryOf = Callable[[Completion], Awaitable[StepBoundary | None]]


async def fates(
    spec: PipelineSpec,
    found: Iterable[Completion],
    boundary_of: BoundaryOf,
    look: RecordLook,
    within_s: float = LOOKS_S,
    max_offsets: int = MAX_LOOK_OFFSETS,
) -> list[Completion]:
    """The same, with what became of each that is `committed`. boundary_of: of the step that has passed it,
    None if it is not in the log any more. within_s: records that could not be looked up in that time stay
    `committed`, with a note. max_offsets: that are looked through for one that is gone."""
    items = {item.name: item for item in spec.inputs}
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    told = []
    for each in found:
        if each.state is CompletionState.COMMITTED:
            each = await _fate(
                items[each.input], each, await boundary_of(each), look, end_s - loop.time(), max_offsets
            )
        told.append(each)
    return told


async def _fate(
    item: InputSpec,
    one: Completion,
    boundary: StepBoundary | None,
    look: RecordLook,
    left_s: float,
    max_offsets: int,
) -> Completion:
    record = one.record
    own = [] if boundary is None else [piece for piece in boundary.inputs if piece.input == one.input]
    piece = next((piece for piece in own if piece.partition == record.partition), None)
    if piece is None or piece.records != piece.to - piece.from_:
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                held = await look.holds(item, record.partition, record.offset)
                if held is Held.GONE:
                    held = await _gone(item, piece, look, max_offsets)
        except TimeoutError:
            held = "Kafka did not answer in time; ask for fewer records at once"
        one = _with(one, held)
    if one.state is not CompletionState.COMMITTED or boundary is None:
        return one
    bad = sum(each.records for each in boundary.skipped if each.input == one.input)
    read = sum(each.records for each in own)
    if bad and bad >= read:
        return replace(one, state=CompletionState.BAD)
    if bad:
        note = (
            f"step {boundary.step} left out {bad} of {read} records of input {one.input} that could not "
            "be parsed; which ones "
        )
        return replace(one, note="; ".join(filter(None, (one.note, f"{note}is not recorded"))))
    return one


async def _gone(item: InputSpec, piece: InputSlice | None, look: RecordLook, max_offsets: int) -> Held | str:
    """GONE if it was gone when its step read: all records that the step has read around it
    are still there, or it read none."""
    if piece is None:
        return "the record is not in Kafka any more, and neither is its step in the log"
    if not piece.records:
        return Held.GONE
    if piece.to - piece.from_ > max_offsets:
        return (
            f"the record is not in Kafka any more, and its step read {piece.to - piece.from_} offsets of "
            f"its partition: more than the {max_offsets} that are looked through to find out whether it was "
            "among them"
        )
    left = await look.records(item, piece.partition, piece.from_, piece.to)
    if isinstance(left, int) and left == piece.records:
        return Held.GONE
    return (
        f"the record is not in Kafka any more; its step read {piece.records} records of offsets "
        f"{piece.from_} to {piece.to - 1}, of which {left if isinstance(left, int) else 'some'} are left"
    )


def _with(one: Completion, held: Held | str) -> Completion:
    match held:
        case Held.RECORD:
            return one
        case Held.ABORTED:
            return replace(one, state=CompletionState.ABORTED)
        case Held.MARKER:
            return replace(one, state=CompletionState.NO_RECORD)
        case Held.GONE:
            return replace(one, state=CompletionState.GONE)
        case why:
            return replace(one, note=f"whether a step has read it can't be told: {why}")
