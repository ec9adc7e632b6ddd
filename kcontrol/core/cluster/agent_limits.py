"""The limits of one agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """late_beats: what is this many beats old is late: a beat after the one before, what one knows of others,
    of the log's end. shortest_poll_ms: nothing is looked at more often, however short the time between two beats is.
    unfit_ms: who could not read the log, or could not write it while it could be read, for so long falls silent.
    append_ms: after so long without an answer an append is given up. ask_again_ms: what was said is not said again for so
    long. handover_ms: a unit that moved is ended here after so long. backoff_ms, longest_backoff_ms: before joining again,
    doubling. failures: so many of a unit in one placement are reported. marks: digests that are kept. snapshots: the shell
    can store them. error_characters: of why a unit has failed, so many are said. steady_ms: so long the cluster has had another
    size before jobs follow it.
    """

    late_beats: int = 4
    shortest_poll_ms: int = 25
    unfit_ms: int = 15_000
    append_ms: int = 5_000
    ask_again_ms: int = 8_000
    handover_ms: int = 120_000
    backoff_ms: int = 2_000
    longest_backoff_ms: int = 300_000
    failures: int = 3
    marks: int = 64
    snapshots: bool = True
    error_characters: int = 4_000
    steady_ms: int = 60_000
