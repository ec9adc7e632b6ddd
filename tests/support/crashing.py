"""`kcontrol`, but it kills itself with SIGKILL at a chosen message of the step protocol.

    CRASH_AT=CommitStep:2 python -m tests.support.crashing coordinator ...

The name is an event's (the process dies before its state machine hears of it) or an effect's (before it is
carried out; with `+` in front, once it has been handed over), the number which occurrence of it. Effects and
events of the same name, and records inside `Publish`, `ControlSeen` and `StepSeen`, are told apart by the record's
name: `Publish.Written:1`, `ControlSeen.Claim:1`, and so is a change of the layout: `CommitCheckpoint.Assignment:1`; that
somebody has copied for one is `ControlSeen.LayoutReady.copied:1`. Only the messages of ORDERS_PIPELINE count: a coordinator
looks after all pipelines that it finds, and what others have left behind must not end it.

With CRASH_FILE in place of CRASH_AT the point is in that file, and may come to be there at any time: it counts from then on,
and once only, for the file is deleted first.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from kcontrol.cli.main import main
from kcontrol.core.events import CommitCheckpoint, ControlSeen, Publish, StepSeen
from kcontrol.core.model import LayoutReady
from kcontrol.sessions.coordinator import CoordinatorSession
from kcontrol.sessions.node import NodeSession

_seen: Counter[str] = Counter()
_told = ""
"""The point that they are counted for."""


def _names(message: Any) -> set[str]:
    name = type(message).__name__
    match message:
        case Publish():
            return {name, *(f"{name}.{type(record).__name__}" for record in message.records)}
        case ControlSeen() | StepSeen():
            of_record = f"{name}.{type(message.logged.record).__name__}"
            return {name, of_record, *_copied(of_record, message.logged.record)}
        case CommitCheckpoint() if message.assignment is not None:
            return {name, f"{name}.Assignment"}
        case _:
            return {name}


def _copied(name: str, record: Any) -> set[str]:
    return {f"{name}.copied"} if isinstance(record, LayoutReady) and record.copied_step else set()


def _point() -> str:
    """Where it is to die, as far as it has been told."""
    global _told
    file = os.environ.get("CRASH_FILE")
    if not file:
        return os.environ.get("CRASH_AT", "")
    told = Path(file).read_text() if Path(file).exists() else ""
    if told != _told:
        _told = told
        _seen.clear()
    return told


def _reach(session: Any, message: Any, prefix: str) -> None:
    if session._state.pipeline != os.environ["ORDERS_PIPELINE"]:
        return
    point = _point()
    for name in _names(message):
        _seen[prefix + name] += 1
        if f"{prefix}{name}:{_seen[prefix + name]}" == point:
            if file := os.environ.get("CRASH_FILE"):
                Path(file).unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def _instrument(session: Any) -> None:
    dispatch, carry_out = session._dispatch, session._carry_out

    def dispatching(self: Any, event: Any) -> None:
        _reach(self, event, "")
        dispatch(self, event)

    def carrying_out(self: Any, effect: Any) -> None:
        _reach(self, effect, "")
        carry_out(self, effect)
        _reach(self, effect, "+")

    session._dispatch, session._carry_out = dispatching, carrying_out


if __name__ == "__main__":
    _instrument(CoordinatorSession)
    _instrument(NodeSession)
    main()
