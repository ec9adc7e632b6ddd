"""What an agent says of itself beside its beats, for people: nothing in the cluster depends on it, so it is no entry of the
log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentTroubles:
    """Of one life of an agent. troubles: what it starts again and again in vain, and why, in sentences; the newest that was
    said counts."""

    agent: str
    incarnation: str
    troubles: tuple[str, ...] = ()
