"""Draws the state machines from their tables, so that the pages in docs/diagrams can't differ from what runs.

A page holds what the table says of itself, the picture, and the rows with what triggers them.

`python -m docs.make_diagrams coordinator > docs/diagrams/coordinator.md`, and the same for `node` and `region`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kcontrol.core import events
from kcontrol.core.coordinator import between_steps
from kcontrol.core.coordinator import table as coordinator_table
from kcontrol.core.coordinator.look import Duty, Guard
from kcontrol.core.machine import Look
from kcontrol.core.node import table as node_table
from kcontrol.core.regions import table as region_table
from kcontrol.core.regions.model import RegionState

_FROM_NEARLY_EVERYWHERE = 8
"""A cause that leads to one state from so many others is drawn once, from 'any state'."""


@dataclass(frozen=True)
class Machine:
    """One state machine, as its table has it."""

    title: str
    words: str
    first: StrEnum
    states: type[StrEnum]
    rows: Sequence[tuple[Any, Any, StrEnum, StrEnum]]
    table: Mapping[Any, StrEnum]
    asks: Mapping[Any, type]
    answered_by: Mapping[Any, type]
    failure: type
    """What any of them may be answered by instead."""
    remarks: Mapping[Any, str]
    """On states, beside what is asked for."""
    look: Sequence[Guard | Duty] = ()


MACHINES = {
    "coordinator": Machine(
        "The coordinator",
        coordinator_table.__doc__ or "",
        coordinator_table.State.IDLE,
        coordinator_table.State,
        coordinator_table.ROWS,
        coordinator_table.TABLE,
        coordinator_table.ASKS,
        coordinator_table.ANSWERED_BY,
        events.TransactionFailed,
        dict.fromkeys(coordinator_table.RESTING, "looked at after each event"),
        between_steps.LOOK,
    ),
    "node": Machine(
        "The node",
        node_table.__doc__ or "",
        node_table.NodeStage.JOINING,
        node_table.NodeStage,
        node_table.ROWS,
        node_table.TABLE,
        node_table.ASKS,
        node_table.ANSWERED_BY,
        events.EngineFailed,
        dict.fromkeys(node_table.CANCELLED, "`CancelAttempt` if it is interrupted"),
    ),
    "region": Machine(
        "A region",
        region_table.__doc__ or "",
        RegionState.STARTED,
        RegionState,
        region_table.REGION_ROWS,
        region_table.REGION_TABLE,
        {},
        {},
        type(None),
        region_table.REMARKS,
    ),
}


_LOOK_WORDS = """In the resting states, in this order, once: what is not an *if* is done. After an *if* that holds, what comes
later in the list is for the state that it has led to. The names are those of `kcontrol/core/coordinator/between_steps.py` and,
without `_`, of `without_steps.py` beside it."""


def mermaid(table: Mapping[Any, StrEnum], first: StrEnum) -> str:
    """A table as a Mermaid state diagram, one arrow for each pair of states, in the order of the table."""
    common = _common(table)
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, cause), after in table.items():
        source = "any state" if (cause, after) in common else str(before)
        causes = arrows.setdefault((source, str(after)), [])
        if str(cause) not in causes:
            causes.append(str(cause))
    lines = ["stateDiagram-v2", f"    [*] --> {_id(str(first))}"]
    names = dict.fromkeys(name for arrow in arrows for name in arrow)
    lines += [f'    state "{name}" as {_id(name)}' for name in names if " " in name]
    lines += [
        f"    {_id(before)} --> {_id(after)}: {', '.join(causes)}"
        for (before, after), causes in arrows.items()
    ]
    return "\n".join(lines) + "\n"


def _common(table: Mapping[Any, StrEnum]) -> set[tuple[StrEnum, StrEnum]]:
    counts: dict[tuple[StrEnum, StrEnum], int] = {}
    for (_, cause), after in table.items():
        counts[cause, after] = counts.get((cause, after), 0) + 1
    return {pair for pair, count in counts.items() if count >= _FROM_NEARLY_EVERYWHERE}


def _id(name: str) -> str:
    return name.replace(" ", "_")


def document(which: str) -> str:
    """The page of docs/diagrams for 'coordinator', 'node' or 'region'."""
    one = MACHINES[which]
    made = (
        f"<!-- made by `python -m docs.make_diagrams {which}`; tests/unit/core/test_diagram.py compares -->"
    )
    parts = [f"# {one.title}", made, _fenced(one.words).rstrip("\n")]
    parts += [f"```mermaid\n{mermaid(one.table, one.first)}```", "## What a state begins with", _states(one)]
    parts += ["## The rows", _rows(one)]
    if one.look:
        parts += ["## What is looked at after each event", _LOOK_WORDS, _look(one)]
    return "\n\n".join(parts) + "\n"


def _states(one: Machine) -> str:
    lines = []
    for state in one.states:
        asked = one.asks.get(state)
        answer = one.answered_by.get(asked)
        answers = "" if answer is None else f"{_code(answer)} or {_code(one.failure)}"
        lines.append((str(state), "" if asked is None else _code(asked), answers, one.remarks.get(state, "")))
    return _table(("state", "asks for", "answered by", ""), lines)


def _rows(one: Machine) -> str:
    lines = []
    for befores, on, cause, after in one.rows:
        states = befores if isinstance(befores, tuple) else (befores,)
        triggers = on if isinstance(on, tuple) else (on,)
        lines.append((_named(states, one.states), ", ".join(map(_trigger, triggers)), str(cause), str(after)))
    return _table(("in", "on", "because of", "to"), lines)


def _look(one: Machine) -> str:
    lines, resting = [], {state for check in one.look for state in check.states}
    for number, check in enumerate(one.look, 1):
        where = "all" if set(check.states) == resting else _named(check.states, one.states)
        if isinstance(check, Duty):
            lines.append((str(number), where, check.name, _called(check.do), "", ""))
        elif check.cause is None:
            lines.append(
                (
                    str(number),
                    where,
                    f"**if** {check.name}",
                    _called(check.holds),
                    "",
                    "stay, and look no further",
                )
            )
        else:
            after = one.table[check.states[0], check.cause]
            lines.append(
                (
                    str(number),
                    where,
                    f"**if** {check.name}",
                    _called(check.holds),
                    str(check.cause),
                    str(after),
                )
            )
    return _table(("", "in", "what", "code", "because of", "to"), lines)


def _called(function: Any) -> str:
    return f"`{function.__name__}`"


def _named(states: Sequence[StrEnum], every: type[StrEnum]) -> str:
    if len(states) < _FROM_NEARLY_EVERYWHERE:
        return ", ".join(states)
    return "any state but " + ", ".join(state for state in every if state not in states)


def _trigger(on: type) -> str:
    return "after each event" if on is Look else _code(on)


def _code(one: type) -> str:
    return f"`{one.__name__}`"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))


def _fenced(text: str) -> str:
    """Indented drawings in a docstring as blocks of Markdown that say that they are text."""
    return re.sub(r"(?m)(?:^    .*\n)+", lambda found: f"```text\n{inspect.cleandoc(found[0])}\n```\n", text)


if __name__ == "__main__":
    sys.stdout.write(document(sys.argv[1]))
