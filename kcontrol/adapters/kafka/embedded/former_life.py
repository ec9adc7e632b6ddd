"""Makes a broker that was killed fit to come back: a controller alone notes that it is gone, before it starts
again.

Otherwise Kafka 4.3 can lose the markers of a transaction. The broker takes up its coordinators as its former
life left them, begins to write the markers of what was being committed, is then fenced by its own new
registration, and takes partitions that have no leader at that moment for deleted ("likely deleted already and
hence can be skipped"). Such a transaction stays open for ever and hides all that follows it from
read_committed consumers. When the metadata already say that the broker is gone, coordinators start only after
every partition has its leader again.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from kcontrol.adapters.kafka.embedded.files import DataDirectory
from kcontrol.backoff import Backoff
from kcontrol.errors import ClusterError

SESSION_TIMEOUT_MS = 100
"""Of the broker with this controller; it is gone anyway."""

_LOOK_AGAIN = Backoff(first_ms=20, longest_ms=20)
_STOP_TIMEOUT_S = 10.0
_ACTIVE = "Activated periodic tasks"
_REGISTRATION = re.compile(r"Replayed .*Register(?:ed)?BrokerRecord\(.*fenced=(?P<fenced>true|false)")
_CHANGE = re.compile(r"Replayed BrokerRegistrationChangeRecord .*fenced=(?P<fenced>-?\d)")


def note_its_end(directory: DataDirectory, command: list[str | Path], timeout_s: float) -> None:
    """Run `command`, a controller over the directory's metadata that logs to
    `controller_log`, until the broker is fenced.

    Raises ClusterError: it did not get there within `timeout_s`.
    """
    controller = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_fenced(directory, controller, timeout_s)
        controller.terminate()
        controller.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        controller.kill()
        controller.wait()


def is_fenced(log_lines: Iterable[str]) -> bool:
    """Whether a controller's log says that it is in charge and its broker fenced, or was never there."""
    active, fenced = False, True
    for line in log_lines:
        active = active or _ACTIVE in line
        if match := _REGISTRATION.search(line):
            fenced = match["fenced"] == "true"
        elif match := _CHANGE.search(line):
            fenced = {"1": True, "-1": False}.get(match["fenced"], fenced)
    return active and fenced


def _await_fenced(directory: DataDirectory, controller: subprocess.Popen[bytes], timeout_s: float) -> None:
    log = directory.controller_log

    def fenced() -> bool:
        return log.is_file() and is_fenced(log.read_text("utf-8", "replace").splitlines())

    def ended() -> bool:
        return controller.poll() is not None

    _LOOK_AGAIN.within(round(timeout_s * 1000)).poll(lambda: ended() or fenced())
    if not ended() and fenced():
        return
    raise ClusterError(
        f"The embedded broker was killed, and what it left in {directory.data} could not be taken up again. "
        f"The log is {log}; use another data directory if it can't be repaired."
    )
