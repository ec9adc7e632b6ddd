"""The number that an agent gives to a process which stands by: a file, which the process looks at, and which outlives the
agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcontrol.apps.agent.placements import placement_of, placement_text
from kcontrol.core.model import AgentPlacement


@dataclass(frozen=True, slots=True)
class GivenNumber:
    """Which node a process is, and by which placement."""

    node: int
    placement: AgentPlacement


def give_number(file: Path, given: GivenNumber) -> None:
    written = file.with_name(f"{file.name}.new")
    written.write_text(f"{given.node} {placement_text(given.placement)}", encoding="utf-8")
    written.replace(file)


def given_number(file: Path) -> GivenNumber | None:
    """None: not yet."""
    try:
        node, placement = file.read_text(encoding="utf-8").split(" ")
    except FileNotFoundError:
        return None
    return GivenNumber(int(node), placement_of(placement))
