"""A placement in the command line of the node that an agent starts by it."""

from __future__ import annotations

import re

from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError

_PLACEMENT = re.compile(r"(\d{1,18})/(\d{1,18})", re.ASCII)


def placement_text(placement: AgentPlacement) -> str:
    """As `placement_of` reads it."""
    return f"{placement.founded_ms}/{placement.generation}"


def placement_of(text: str) -> AgentPlacement:
    """Raises ConfigurationError."""
    found = _PLACEMENT.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"--placement {text!r} is not FOUNDED_MS/GENERATION: it is for agents, which say by which entry of the "
            "cluster's log they start a node; leave it out"
        )
    return AgentPlacement(int(found[1]), int(found[2]))
