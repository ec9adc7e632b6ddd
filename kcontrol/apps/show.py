"""Records as lines for people. JSON comes from `kcontrol.wire.json`, with the names of the schemas."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from kcontrol.core.model import Logged, StepBoundary, Tombstone
from kcontrol.views.void_steps import VoidSince
from kcontrol.wire.json import to_json, to_json_line

MAX_TEXT = 200
"""Longer values are cut in lines for people; --json has them whole."""


def time_text(at_ms: int) -> str:
    """UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def step_json(boundary: StepBoundary, void: VoidSince | None = None) -> str:
    """The whole boundary on one line, and of a void step what has made it so."""
    if void is None:
        return to_json_line(boundary)
    told = {**to_json(boundary), "void_since": void.model_dump()}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def step_line(boundary: StepBoundary, void: VoidSince | None = None) -> str:
    """One committed step: number, time, reason, records in and out, time from the opened transaction to its
    commit. void: what has made it so."""
    return f"{_step_line(boundary)}{'' if void is None else f'  void since step {void.step}'}"


def _step_line(boundary: StepBoundary) -> str:
    if boundary.reset is not None:
        void = f"{boundary.reset.to_step + 1} to {boundary.step - 1} are void"
        return (
            f"{boundary.step:>7}  {time_text(boundary.now_ms)}  {'reset':<9}  back to step {boundary.reset.to_step}: {void}"
            f"{f' ({boundary.reset.why})' if boundary.reset.why else ''}, by {boundary.reset.by}"
        )
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for piece in boundary.inputs:
        read[piece.input] += piece.records
    for out in boundary.outputs:
        written[out.output] += out.records
    took_ms = boundary.committed_ms - boundary.opened_ms
    return (
        f"{boundary.step:>7}  {time_text(boundary.now_ms)}  {boundary.reason.value:<9}  "
        f"{_counts(read)} -> {_counts(written)}  {took_ms} ms{_left_out(boundary)}"
    )


def _left_out(boundary: StepBoundary) -> str:
    """What the step did without, by a user's wish or because it came too late; seldom anything."""
    late: Counter[str] = Counter()
    for one in boundary.late_rows:
        late[one.query] += one.rows
    dropped = [f"late {_counts(late)}"] if late.total() else []
    skipped = [
        f"skipped {one.input}/{one.partition} offsets {one.from_} to {one.to - 1}"
        for one in boundary.skipped_ranges
    ]
    paused = [f"paused {', '.join(boundary.paused_inputs)}"] if boundary.paused_inputs else []
    return "".join(f"  {text}" for text in (*skipped, *paused, *dropped))


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.items()) or "nothing"


def logged_json(logged: Logged) -> str:
    """A control record with its offset and the name of its schema, on one line."""
    facts: dict[str, Any] = {"offset": logged.offset, "timestamp_ms": logged.timestamp_ms}
    match logged.record:
        case Tombstone(key):
            facts |= {"record": "Tombstone", "key": key}
        case record:
            facts |= {"record": type(record).__name__, **to_json(record)}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def logged_line(logged: Logged) -> str:
    """The same for people."""
    match logged.record:
        case Tombstone(key):
            said = f"{'Tombstone':<12}  {key}"
        case record:
            values = {
                name: value
                for name, value in to_json(record).items()
                if name != "pipeline" and value not in ("", None, [])
            }
            said = f"{type(record).__name__:<12}  " + " ".join(
                f"{name}={_short(value)}" for name, value in values.items()
            )
    return f"{logged.offset:>8}  {time_text(logged.timestamp_ms)}  {said}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
