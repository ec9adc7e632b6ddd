"""Draws the state machines from their tables, so that the pictures in docs/diagrams can't differ from what runs.

`python -m docs.make_diagrams coordinator > docs/diagrams/coordinator.md`, and the same for `node`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kcontrol.core.coordinator import table as coordinator_table
from kcontrol.core.node import table as node_table

_FROM_NEARLY_EVERYWHERE = 8
"""A cause that leads to one state from so many others is drawn once, from 'any state'."""

_TITLES: dict[str, tuple[str, Mapping[Any, StrEnum], StrEnum, str | None]] = {
    "coordinator": ("The coordinator", coordinator_table.TABLE, coordinator_table.State.IDLE, coordinator_table.__doc__),
    "node": ("The node", node_table.TABLE, node_table.State.JOINING, node_table.__doc__),
}


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
    lines += [f"    {_id(before)} --> {_id(after)}: {', '.join(causes)}" for (before, after), causes in arrows.items()]
    return "\n".join(lines) + "\n"


def _common(table: Mapping[Any, StrEnum]) -> set[tuple[StrEnum, StrEnum]]:
    counts: dict[tuple[StrEnum, StrEnum], int] = {}
    for (_, cause), after in table.items():
        counts[cause, after] = counts.get((cause, after), 0) + 1
    return {pair for pair, count in counts.items() if count >= _FROM_NEARLY_EVERYWHERE}


def _id(name: str) -> str:
    return name.replace(" ", "_")


def document(which: str) -> str:
    """The page of docs/diagrams for 'coordinator' or 'node': what the table says of itself, and the picture."""
    title, table, first, words = _TITLES[which]
    made = f"<!-- made by `python -m docs.make_diagrams {which}`; tests/unit/core/test_diagram.py compares -->"
    return f"# {title}\n\n{made}\n\n{_fenced(words or '')}\n```mermaid\n{mermaid(table, first)}```\n"


def _fenced(text: str) -> str:
    """Indented drawings in a docstring as blocks of Markdown that say that they are text."""
    return re.sub(r"(?m)(?:^    .*\n)+", lambda found: f"```text\n{inspect.cleandoc(found[0])}\n```\n", text)


if __name__ == "__main__":
    sys.stdout.write(document(sys.argv[1]))
