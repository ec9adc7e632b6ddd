"""The proof of the demo: what a read_committed consumer finds is what plain Spark
computes, and every step is whole.

Reads Kafka with confluent-kafka alone, and compares three independent things: the records in the output
topics, the recorded steps, and the rows of a batch job.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.step_feed import Boundary
from examples.topic_reading import read_topics

TIMEOUT_S = 30
Row = str
"""A row as JSON with its fields in order, so that rows can be counted."""


@dataclass(frozen=True)
class Found:
    """One visible record of an output topic, with the step that its header names."""

    topic: str
    partition: int
    offset: int
    step: int
    key: str | None
    value: dict[str, Any]


@dataclass
class Proof:
    """What was compared. Empty `problems` and zeros mean that it held."""

    lost: int = 0
    duplicated: int = 0
    torn: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.lost or self.duplicated or self.torn or self.problems)


def read_committed(bootstrap_servers: str, topics: Iterable[str]) -> list[Found]:
    """Every record of the topics that a read_committed consumer sees, up to where nothing is open any
    more."""
    found = []
    for message in read_topics(bootstrap_servers, topics, timeout_s=TIMEOUT_S):
        key, value, headers = message.key(), message.value(), dict(message.headers() or ())
        found.append(
            Found(
                message.topic() or "",
                message.partition() or 0,
                message.offset() or 0,
                int(headers["step"] or 0),
                None if key is None else key.decode(),
                json.loads(value or b""),
            )
        )
    return found


def rows(directory: Path) -> list[dict[str, Any]]:
    """What plain Spark wrote."""
    return [
        json.loads(line)
        for part in sorted(directory.glob("part-*.json"))
        for line in part.read_text().splitlines()
    ]


def prove(
    steps: list[Boundary], delays: list[Found], delayed: list[Found], plain: Path, ends: dict[int, int]
) -> Proof:
    """Compare. ends: by partition of the input, one past its last record."""
    proof = Proof()
    _inputs_once(proof, steps, ends)
    _steps_whole(proof, steps, [*delays, *delayed])
    _same_rows(
        proof, [_row(found.value) for found in delayed], [_row(row) for row in rows(plain / "delayed")]
    )
    _same_totals(proof, delays, rows(plain / "delays"))
    return proof


def _row(fields: dict[str, Any]) -> Row:
    return json.dumps(fields, sort_keys=True)


def _inputs_once(proof: Proof, steps: list[Boundary], ends: dict[int, int]) -> None:
    """The recorded slices lie end to end, from the first offset to the last: each record is in exactly one
    step, or in a skip that somebody has asked for and the step after it records."""
    reached = dict.fromkeys(ends, 0)
    for step in steps:
        for skip in step.get("skipped_ranges", ()):
            if skip["from"] == reached[skip["partition"]]:
                reached[skip["partition"]] = skip["to"]
        for piece in step["inputs"]:
            partition = piece["partition"]
            gap = piece["from"] - reached[partition]
            proof.lost += max(0, gap)
            proof.duplicated += max(0, -gap)
            reached[partition] = piece["to"]
            if piece["records"] != piece["to"] - piece["from"]:
                proof.problems.append(
                    f"step {step['step']}, input partition {partition}: {piece['records']} records recorded"
                )
    proof.lost += sum(max(0, ends[partition] - to) for partition, to in reached.items())


def _steps_whole(proof: Proof, steps: list[Boundary], found: list[Found]) -> None:
    """What is visible of a step lies exactly in the offsets that its boundary names, and nothing lies outside
    of any."""
    offsets = defaultdict(list)
    for each in found:
        offsets[each.step, each.topic, each.partition].append(each.offset)
    torn = set()
    for step in steps:
        for piece in step["outputs"]:
            seen = sorted(offsets.pop((step["step"], piece["topic"], piece["partition"]), []))
            if seen != list(range(piece["from"], piece["to"])) or len(seen) != piece["records"]:
                torn.add(step["step"])
    torn.update(step for step, _, _ in offsets)
    proof.torn += len(torn)
    if torn:
        proof.problems.append(f"torn steps: {', '.join(map(str, sorted(torn)[:10]))}")


def _same_rows(proof: Proof, found: list[Row], expected: list[Row]) -> None:
    """The delayed flights, each as often as plain Spark has it."""
    have, want = Counter(found), Counter(expected)
    proof.lost += (want - have).total()
    proof.duplicated += (have - want).total()
    for what, rest in (("missing", want - have), ("too many", have - want)):
        for row in list(rest)[:3]:
            proof.problems.append(f"delayed flight {what}: {row}")


def _same_totals(proof: Proof, found: list[Found], expected: list[dict[str, Any]]) -> None:
    """The last value of each route, in the order of its partition, against plain Spark's row of it."""
    last: dict[str | None, dict[str, Any]] = {}
    for each in sorted(found, key=lambda each: (each.partition, each.offset)):
        last[each.key] = each.value
    want = {row["route"]: row for row in expected}
    for route in sorted({*want, *last}, key=str):
        if last.get(route) != want.get(route):
            proof.problems.append(
                f"totals of {route}: found {last.get(route)}, plain Spark says {want.get(route)}"
            )
