"""What lies between the last step by one layout and the first by the next, from what all have said of it and when.

Kafka stamps what is said on the control topic; boundaries are stamped by the coordinator. All are processes of one machine. A
part lasts from the end of the one before to when the last node was through with it: what ends earlier than that lasts 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from kcontrol.core.model import (
    CheckpointPart,
    Command,
    CommandKind,
    Logged,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelineSpec,
    Written,
)

Boundary = Mapping[str, Any]
"""A line of `kcontrol steps --json`."""
OPENS = (CommandKind.OPEN, CommandKind.CREATE)


@dataclass(frozen=True)
class Part:
    """what: for people."""

    what: str
    ms: float


@dataclass(frozen=True)
class Change:
    """One change of the layout. gaps_ms: between boundaries, from the one before it was asked for to some after it. after_step:
    the last one by the layout before. switch_ms: from its commit to the next one's, of which the parts are. moved_bytes: of
    state, that came to processes that lacked it. optimum_bytes: of the fewest shards that have to."""

    before: int
    nodes: int
    after_step: int
    gaps_ms: tuple[float, ...]
    switch_ms: float
    parts: tuple[Part, ...]
    moved_bytes: int
    optimum_bytes: int

    @property
    def longest_ms(self) -> float:
        return max(self.gaps_ms)

    @property
    def median_ms(self) -> float:
        return median(self.gaps_ms)

    @property
    def moved_ratio(self) -> float | None:
        """1.0: no more than had to be; None: nothing had to."""
        return self.moved_bytes / self.optimum_bytes if self.optimum_bytes else None


def gaps_ms(steps: Sequence[Boundary]) -> tuple[float, ...]:
    """Between each and the next."""
    return tuple(float(after["committed_ms"] - before["committed_ms"]) for before, after in pairwise(steps))


def parts(
    control: Sequence[Logged], before: Boundary, after: Boundary, number: int, made_ms: int
) -> tuple[Part, ...]:
    """Of the gap from `before` to `after`. control: all that was said. number, made_ms: of the assignment between them."""
    said = [each for each in control if before["committed_ms"] <= each.timestamp_ms <= after["committed_ms"]]
    step = before["step"]
    last = _Last(said)
    opened = [each.timestamp_ms for each in said if _is_command(each, OPENS)]
    ends_ms = (
        (
            "nodes are told to save the last step",
            last(lambda each: _is_command(each, (CommandKind.CHECKPOINT,))),
        ),
        (
            "they save it",
            last(lambda each: isinstance(each.record, CheckpointPart) and each.record.step == step),
        ),
        ("checkpoint and layout are decided", made_ms),
        (
            "they are committed and read; queries are closed",
            last(lambda each: isinstance(each.record, PipelineSpec) and each.record.assignment == number),
        ),
        ("processes join by it", last(lambda each: isinstance(each.record, NodeJoin))),
        ("they read the logs and their directories", _first_words(said)),
        ("they are told what to open", max(opened, default=0)),
        ("queries are opened", _opened(said, opened, step)),
        ("the step is decided, and its command read", _of_work(after, "begun_ms")),
        (
            "Spark makes the first stage of the step",
            last(lambda each: isinstance(each.record, Written) and each.record.early),
        ),
        ("Spark makes the rest of it", _of_work(after, "written_ms")),
        ("it is committed", after["committed_ms"]),
    )
    return lasted(before["committed_ms"], ends_ms)


class _Last:
    """When something was said for the last time; 0: never."""

    def __init__(self, said: Sequence[Logged]) -> None:
        self._said = said

    def __call__(self, meant: Callable[[Logged], bool]) -> int:
        return max((each.timestamp_ms for each in self._said if meant(each)), default=0)


def _is_command(logged: Logged, kinds: Iterable[CommandKind]) -> bool:
    return isinstance(logged.record, Command) and logged.record.kind in kinds


def _first_words(said: Sequence[Logged]) -> int:
    """When the last of those that joined said for the first time how it is."""
    joined = {each.offset for each in said if isinstance(each.record, NodeJoin)}
    first: dict[int, int] = {}
    for each in said:
        if isinstance(each.record, NodeState) and each.record.incarnation in joined:
            first.setdefault(each.record.incarnation, each.timestamp_ms)
    return max(first.values(), default=0)


def _opened(said: Sequence[Logged], told_ms: Sequence[int], step: int) -> int:
    """When the last node said for the first time that it holds the step, after it was told to open."""
    first: dict[int, int] = {}
    for each in said:
        record = each.record
        if not isinstance(record, NodeState) or each.timestamp_ms < min(told_ms, default=0):
            continue
        if record.phase is NodePhase.OPEN and record.step == step:
            first.setdefault(record.incarnation, each.timestamp_ms)
    return max(first.values(), default=0)


def _of_work(step: Boundary, name: str) -> int:
    return max((each[name] for each in step["work"]), default=0)


def lasted(begin_ms: float, ends_ms: Iterable[tuple[str, float]]) -> tuple[Part, ...]:
    """By when each of them was over, one after the other."""
    found, at_ms = [], begin_ms
    for what, end_ms in ends_ms:
        found.append(Part(what, max(0, end_ms - at_ms)))
        at_ms = max(at_ms, end_ms)
    return tuple(found)
