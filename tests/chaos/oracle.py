"""The oracle: says of a log of steps and the topics' visible records whether each step did exactly what it
had to.

Plain Python over plain data. It knows the pipeline only by its twin in `expected.py`, and nothing of
kcontrol's code: no digest, no engine, no reader of it. Every rule names what it forbids, and `test_oracle.py`
breaks each one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.expected import Expected, InputRecord, Row, row
from tests.chaos.murmur2 import partition_of
from tests.chaos.names import INPUTS, KEYED_OUTPUT, OUTPUTS

Boundary = Mapping[str, Any]
"""As `kcontrol steps --json` prints it."""

SHOWN_ROWS = 3


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record of an output topic that a read_committed consumer sees; `step` is its header, None without
    one."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be. rule: a word for it; step: where, 0 if in none."""

    rule: str
    step: int
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: step {self.step}: {self.what}" if self.step else f"{self.rule}: {self.what}"


def check(
    steps: Sequence[Boundary],
    inputs: Sequence[InputRecord],
    outputs: Sequence[OutputRecord],
    *,
    complete: bool,
) -> list[Violation]:
    """All violations. complete: the input has ended and must be used up; otherwise later steps may be on
    their way."""
    return [
        *_numbers(steps),
        *_divisions(steps),
        *(_unread(steps, inputs) if complete else ()),
        *_places(steps, outputs, complete),
        *_contents(steps, inputs, outputs),
    ]


def differences(one: Sequence[OutputRecord], other: Sequence[OutputRecord]) -> list[Violation]:
    """Of two pipelines that do the same with each record of the same input, in steps of their own: rows that differ by a
    byte, or in whether they are there, or in the partition of their key."""
    of_one, of_other = Counter(map(_placed, one)), Counter(map(_placed, other))
    return [
        Violation(
            rule,
            0,
            f"{rows.total()} rows, such as {'; '.join(map(str, sorted(rows, key=str)[:SHOWN_ROWS]))}",
        )
        for rule, rows in (
            ("in the first alone", of_one - of_other),
            ("in the other alone", of_other - of_one),
        )
        if rows
    ]


def _placed(record: OutputRecord) -> tuple[str, int | None, bytes | None, bytes | None]:
    """What of a record does not depend on its step. The partition of a row without a key may."""
    where = record.partition if record.topic == KEYED_OUTPUT else None
    return record.topic, where, record.key, record.value


def _numbers(steps: Sequence[Boundary]) -> Iterator[Violation]:
    """Steps are 1, 2, 3, ...; their times grow; each was committed under a token of its own."""
    tokens: dict[str, int] = {}
    last_ms = -1
    for position, boundary in enumerate(steps, start=1):
        if boundary["step"] != position:
            yield Violation("not contiguous", boundary["step"], f"stands at position {position} of the log")
        if boundary["now_ms"] <= last_ms:
            yield Violation(
                "time stands still", boundary["step"], f"now_ms {boundary['now_ms']} after {last_ms}"
            )
        last_ms = boundary["now_ms"]
        token = json.dumps(boundary["token"], sort_keys=True)
        if token in tokens:
            yield Violation("token used twice", boundary["step"], f"that of step {tokens[token]}: {token}")
        tokens[token] = boundary["step"]


def _divisions(steps: Sequence[Boundary]) -> Iterator[Violation]:
    """The slices of a partition lie end to end from offset 0 on, but for recorded skips: no record is in two
    steps, none between two. A partition that was added is no other than one that was there."""
    reached = defaultdict(
        int, {(topic, partition): 0 for topic, count in INPUTS.items() for partition in range(count)}
    )
    for boundary in steps:
        for skip in boundary.get("skipped_ranges", ()):
            where = (skip["topic"], skip["partition"])
            if not skip["from"] == reached[where] < skip["to"]:
                yield Violation(
                    "skipped wrongly", boundary["step"], f"{skip}; the step before ended at {reached[where]}"
                )
            reached[where] = skip["to"]
        for piece in boundary["inputs"]:
            where = (piece["topic"], piece["partition"])
            if piece["from"] != reached[where]:
                rule = "input lost" if piece["from"] > reached[where] else "input read twice"
                yield Violation(
                    rule,
                    boundary["step"],
                    f"{where} from {piece['from']}, the step before ended at {reached[where]}",
                )
            if piece.get("input") in boundary.get("paused_inputs", ()) and piece["to"] > piece["from"]:
                yield Violation("paused input read", boundary["step"], str(piece))
            if piece["to"] < piece["from"]:
                yield Violation(
                    "backwards", boundary["step"], f"{where} from {piece['from']} to {piece['to']}"
                )
            reached[where] = piece["to"]


def _unread(steps: Sequence[Boundary], inputs: Sequence[InputRecord]) -> Iterator[Violation]:
    """When all is done, every committed input record is in a step or in a recorded skip."""
    read: Counter[tuple[str, int]] = Counter()
    for boundary in steps:
        for piece in boundary["inputs"]:
            where = (piece["topic"], piece["partition"])
            read[where] = max(read[where], piece["to"])
    unread = Counter(
        (record.topic, record.partition)
        for record in inputs
        if record.offset >= read[record.topic, record.partition]
    )
    for where, count in unread.items():
        yield Violation(
            "input lost", 0, f"{count} records of {where} are in no step; steps end at {read[where]}"
        )


def _places(
    steps: Sequence[Boundary], outputs: Sequence[OutputRecord], complete: bool
) -> Iterator[Violation]:
    """What is visible with a step's header lies exactly in the ranges of its boundary,
    and nothing is visible besides."""
    seen = defaultdict(list)
    for record in outputs:
        if record.step is None:
            yield Violation("no step header", 0, f"{record.topic} {record.partition} offset {record.offset}")
        else:
            seen[record.step, record.topic, record.partition].append(record.offset)
    for boundary in steps:
        named = {(piece["topic"], piece["partition"]) for piece in boundary["outputs"]}
        if len(named) != len(boundary["outputs"]):
            yield Violation("range given twice", boundary["step"], str(boundary["outputs"]))
        for piece in boundary["outputs"]:
            where = (boundary["step"], piece["topic"], piece["partition"])
            offsets = sorted(seen.pop(where, []))
            if offsets != list(range(piece["from"], piece["to"])):
                shown = (
                    f"{len(offsets)} visible from {offsets[0]} to {offsets[-1] + 1}"
                    if offsets
                    else "nothing visible"
                )
                yield Violation(
                    "torn",
                    boundary["step"],
                    f"{where[1:]}: recorded from {piece['from']} to {piece['to']}, {shown}",
                )
            if piece["records"] != piece["to"] - piece["from"]:
                yield Violation("miscounted output", boundary["step"], f"{where[1:]}: {piece}")
    last = steps[-1]["step"] if steps else 0
    for (step, topic, partition), offsets in seen.items():
        if complete or step <= last:
            yield Violation(
                "stray output", step, f"{len(offsets)} records in {topic} {partition} that no boundary names"
            )


def _contents(
    steps: Sequence[Boundary], inputs: Sequence[InputRecord], outputs: Sequence[OutputRecord]
) -> Iterator[Violation]:
    """Each step's rows are those of the twin, and keyed ones lie where Kafka's partitioner puts them."""
    by_place = defaultdict(dict)
    for record in inputs:
        by_place[record.topic, record.partition][record.offset] = record
    written: dict[tuple[int | None, str], Counter[Row]] = defaultdict(Counter)
    for found in outputs:
        written[found.step, found.topic][_row(found)] += 1
        if found.topic == KEYED_OUTPUT and found.partition != partition_of(
            found.key or b"", OUTPUTS[found.topic]
        ):
            yield Violation(
                "wrong partition", found.step or 0, f"key {found.key!r} is in {found.topic} {found.partition}"
            )
    twin = Expected()
    for boundary in steps:
        records = []
        for piece in boundary["inputs"]:
            place = by_place[piece["topic"], piece["partition"]]
            visible = [place[offset] for offset in range(piece["from"], piece["to"]) if offset in place]
            if piece["records"] != len(visible):
                what = (
                    f"{piece['topic']} {piece['partition']}: {piece['records']} recorded, {len(visible)} "
                    "visible"
                )
                yield Violation("miscounted input", boundary["step"], what)
            records += visible
        for output, expected in twin.step(records, boundary["now_ms"]).items():
            yield from _differences(boundary["step"], output, expected, written[boundary["step"], output])


def _differences(step: int, output: str, expected: Counter[Row], found: Counter[Row]) -> Iterator[Violation]:
    for rule, rows in (("output lost", expected - found), ("output too many", found - expected)):
        if rows:
            shown = "; ".join(f"{key}: {value}" for key, value in sorted(rows, key=str)[:SHOWN_ROWS])
            yield Violation(rule, step, f"{rows.total()} rows of {output}, such as {shown}")


def _row(record: OutputRecord) -> Row:
    return row(record.key.decode() if record.key is not None else None, json.loads(record.value or b"{}"))
