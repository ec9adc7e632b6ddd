"""What a step that was run again has otherwise than the log says: the one comparison behind
recovery, `verify` and `replay`.

All of a boundary that follows from the step's input and from the code is compared: ranges, counts and digests
of what was read, exchanged and written, bad records that were left out, rows that watermarks dropped, and whether one
moved. Offsets of the output are
not: a replay writes nothing. What was read comes first, because nothing that follows
from other input says anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kcontrol.core.model import (
    EMPTY_DIGEST,
    ExchangeRun,
    ExchangeSlice,
    InputSlice,
    OutputSlice,
    PipelineSpec,
    Skipped,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.step.exchange import content, is_same, slots_of
from kcontrol.core.step.layout import writers_of
from kcontrol.core.step.offsets import node_of

Content = tuple[int, str]
"""Records and their digest."""

INPUT, OUTPUT, EXCHANGE = "input", "output", "exchange"
_NOTHING: Content = (0, EMPTY_DIGEST)


@dataclass(frozen=True, slots=True)
class NodePart:
    """What one node has read and written of a step: (input, partition), and by output its partitions."""

    inputs: frozenset[tuple[str, int]]
    outputs: Mapping[str, frozenset[int]]
    whole: bool
    """No other node took part."""
    node: int = 0
    sent: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By exchange, the partitions that it writes; without those of which it can't be told, because the definition was
    changed since."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a step that was run again differs from the log.

    what: 'input', 'exchange' and 'output' are of one partition, expected and found (records, digest). 'range', of a
    partition, is which offsets were read. 'bad records' are counts of an input, 'late rows' of a query;
    'watermark' is whether it moved; 'time' and 'layout' are what the step was run with, as text. `partition`
    is None where there is none.
    """

    step: int
    what: str
    name: str
    partition: int | None
    expected: Content | int | bool | str
    found: Content | int | bool | str

    @property
    def of_input(self) -> bool:
        """It is in what went into the step: nothing else that was found says anything."""
        return self.what in (INPUT, "range", "time", "layout")

    def __str__(self) -> str:
        where = f"{self.what} {self.name!r}" if self.name else self.what
        if self.partition is not None:
            where += f" partition {self.partition}"
        if isinstance(self.expected, tuple) and isinstance(self.found, tuple):
            return (
                f"step {self.step}: {where} differs: the log has {self.expected[0]} records with digest "
                f"{self.expected[1]}, this run has {self.found[0]} with {self.found[1]}"
            )
        return (
            f"step {self.step}: {where} differs: the log has {_text(self.expected)}, this run has "
            f"{_text(self.found)}"
        )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "that it moved" if value else "that it did not move"
    return str(value)


def part_of(boundary: StepBoundary, spec: PipelineSpec, node: int) -> NodePart:
    """A node's part of a step that was made by as many nodes as `spec` has. Inputs and outputs that the
    spec no longer has are in nobody's part: which changes fit the log, its user has said with
    `compatible_with`."""
    inputs = {item.name: item for item in spec.inputs}
    return NodePart(
        frozenset(
            (piece.input, piece.partition)
            for piece in boundary.inputs
            if piece.input in inputs and node_of(inputs[piece.input], spec.nodes, piece.partition) == node
        ),
        {
            output.name: frozenset(mine)
            for output, mine in zip(spec.outputs, writers_of(spec, boundary.layout, node), strict=True)
        },
        boundary.nodes == 1,
        node,
        {
            each.exchange: frozenset(slots_of(spec, boundary.layout, each.exchange, node))
            for each in boundary.layout.exchanges
            if boundary.fingerprint == spec.fingerprint
        },
    )


def differences(
    boundary: StepBoundary, part: NodePart, work: StepWork, found: StepResult
) -> list[Difference]:
    """Everything in which what a node was told to run again, and what it found, differ from its part of the
    log.

    Where what went into the step differs, that is all that is said.
    """
    put_in = [*_told(boundary, work), *input_differences(boundary, part, found.inputs)]
    if put_in:
        return put_in
    return [
        *_sent(boundary, part, found.sent),
        *_taken(boundary, part, found),
        *_outputs(boundary, part, found.outputs),
        *_bad_records(boundary, part, found),
        *_watermark(boundary, part, found),
        *_late_rows(boundary, found),
    ]


def input_differences(
    boundary: StepBoundary, part: NodePart, found: Iterable[InputSlice]
) -> list[Difference]:
    """What was read otherwise. A partition of which nothing was found counts as read empty."""
    wanted = {
        (piece.input, piece.partition): piece
        for piece in boundary.inputs
        if (piece.input, piece.partition) in part.inputs
    }
    given = {(piece.input, piece.partition): piece for piece in found}
    differences = []
    for name, partition in sorted(wanted.keys() | given.keys()):
        before, now = wanted.get((name, partition)), given.get((name, partition))
        if before is not None and now is not None and _range(before) != _range(now):
            differences.append(
                Difference(boundary.step, "range", name, partition, _range(before), _range(now))
            )
        elif _content(before) != _content(now):
            differences.append(
                Difference(boundary.step, INPUT, name, partition, _content(before), _content(now))
            )
    return differences


def _told(boundary: StepBoundary, work: StepWork) -> Iterator[Difference]:
    """A step that was run with another time or cut otherwise is another step."""
    if work.now_ms != boundary.now_ms:
        yield Difference(boundary.step, "time", "", None, f"{boundary.now_ms} ms", f"{work.now_ms} ms")
    if work.layout != boundary.layout:
        yield Difference(boundary.step, "layout", "", None, str(boundary.layout), str(work.layout))


def _range(piece: InputSlice) -> str:
    return f"offsets {piece.from_} to {piece.to} of topic {piece.topic} ({piece.topic_id})"


def _sent(boundary: StepBoundary, part: NodePart, found: Iterable[ExchangeSlice]) -> Iterator[Difference]:
    """Of the senders that were run again, by the node that the rows are for, and where they differ by slot. What lies at
    which offset is not compared; nor in which slot, if all is there: Spark may bring the partitions of a state to other
    tasks, wherever it finds them."""
    given = {(piece.exchange, piece.partition): piece for piece in found}
    again = {exchange for exchange, _ in given}
    wanted = {
        (piece.exchange, piece.partition): piece
        for piece in boundary.exchanges
        if piece.exchange in again and piece.partition in part.sent.get(piece.exchange, ())
    }
    for exchange in sorted(again & part.sent.keys()):
        slots = sorted(slot for name, slot in wanted.keys() | given.keys() if name == exchange)
        for node in range(boundary.nodes):
            pairs = [
                (_for_node(wanted.get((exchange, slot)), node), _for_node(given.get((exchange, slot)), node))
                for slot in slots
            ]
            if is_same(_all(before for before, _ in pairs), _all(now for _, now in pairs)):
                continue
            for slot, (before, now) in zip(slots, pairs, strict=True):
                if not is_same(content(before), content(now)):
                    yield Difference(boundary.step, EXCHANGE, exchange, slot, content(before), content(now))


def _for_node(piece: ExchangeSlice | None, node: int) -> list[ExchangeRun]:
    return [run for run in (() if piece is None else piece.runs) if run.node == node]


def _all(slots: Iterable[list[ExchangeRun]]) -> Content:
    return content(run for runs in slots for run in runs)


def _taken(boundary: StepBoundary, part: NodePart, found: StepResult) -> Iterator[Difference]:
    """Of the exchanges that were read again: all that the log has for this node."""
    for each in found.taken:
        runs = (run for piece in boundary.exchanges if piece.exchange == each.exchange for run in piece.runs)
        before = sum(run.records for run in runs if run.node == part.node)
        if before != each.records:
            yield Difference(
                boundary.step, "rows taken from exchange", each.exchange, None, before, each.records
            )


def _outputs(boundary: StepBoundary, part: NodePart, found: Iterable[OutputSlice]) -> Iterator[Difference]:
    wanted = {
        (piece.output, piece.partition): piece
        for piece in boundary.outputs
        if piece.partition in part.outputs.get(piece.output, ())
    }
    given = {(piece.output, piece.partition): piece for piece in found}
    for name, partition in sorted(wanted.keys() | given.keys()):
        before, now = _content(wanted.get((name, partition))), _content(given.get((name, partition)))
        if before != now:
            yield Difference(boundary.step, OUTPUT, name, partition, before, now)


def _content(piece: InputSlice | OutputSlice | None) -> Content:
    return _NOTHING if piece is None else (piece.records, piece.digest)


def _bad_records(boundary: StepBoundary, part: NodePart, found: StepResult) -> Iterator[Difference]:
    """The log has the sum over all nodes: of one among several it is only known that it left out no more."""
    wanted, given = _counts(boundary.skipped), _counts(found.skipped)
    for name in sorted(wanted.keys() | given.keys()):
        before, now = wanted.get(name, 0), given.get(name, 0)
        if now > before or (part.whole and now != before):
            yield Difference(boundary.step, "bad records", name, None, before, now)


def _counts(skipped: Iterable[Skipped]) -> dict[str, int]:
    return {each.input: each.records for each in skipped if each.records}


def _watermark(boundary: StepBoundary, part: NodePart, found: StepResult) -> Iterator[Difference]:
    """It has moved in the step if it has on any node. Where nodes share one, none of them can tell."""
    if boundary.watermarks:
        return
    if found.watermark_moved != boundary.watermark_moved and (part.whole or found.watermark_moved):
        yield Difference(
            boundary.step, "watermark", "", None, boundary.watermark_moved, found.watermark_moved
        )


def _late_rows(boundary: StepBoundary, found: StepResult) -> Iterator[Difference]:
    """Of the queries that were counted both times: not, in boundaries of before they
    were, or if a watermark was added."""
    wanted = {(each.query, each.node): each.rows for each in boundary.late_rows}
    for each in found.late_rows:
        before = wanted.get((each.query, each.node), each.rows)
        if before != each.rows:
            yield Difference(boundary.step, "late rows", each.query, None, before, each.rows)
