"""Pauses and limits of an agent's process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """poll_ms: between two looks at the log, the beats and the processes, and less at the log and the beats where that would be
    late. restart_ms: before a process that has ended is started again. longest_restart_ms: before one that is started again and
    again in vain is, as that pause is doubled each time. short_life_s: who ran longer has not failed to run here.
    coordinator: what is run where a coordinator is placed; nothing if it is empty. give_up_ms: so long it waits for a snapshot
    that its version can read. say_again_ms: before what goes on in vain is said again, for whoever begins to look.
    spare_after_ms: before what only stands by is started (`Spares`)."""

    poll_ms: int = 500
    restart_ms: int = 2_000
    longest_restart_ms: int = 30_000
    short_life_s: float = 60.0
    coordinator: Sequence[str] = ()
    give_up_ms: int = 300_000
    say_again_ms: int = 30_000
    spare_after_ms: int = 5_000
