"""What a process says does not fill its host's disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcontrol.apps.agent.processes import EndedProcess, HostProcesses
from kcontrol.apps.agent.unit_log import keep_short
from kcontrol.core.cluster.model import Unit
from tests.support.patience import HANG_S
from tests.support.processes import until

UNIT: Unit = ("job", "nodes", 0)
LOG_BYTES = 4_096
SAYS = (
    'n=0; while [ ! -e "$0" ]; do n=$((n + 1)); echo "line $n"; done; : > "$0.heard"; '
    'while [ ! -e "$0.ends" ]; do sleep 0.01; done; echo "the end" >&2'
)
"""Lines without end, until there is a file; once it was seen another, and the end when there is a third."""


def ended(host: HostProcesses) -> EndedProcess:
    found: list[EndedProcess] = []

    def has_ended() -> bool:
        found.extend(host.tend(0))
        return bool(found)

    until(has_ended, "it has ended", HANG_S)
    return found[0]


def test_a_process_that_says_much_keeps_no_more_than_its_log_may_have(tmp_path: Path) -> None:
    host, told = HostProcesses(tmp_path / "units", 1_000, log_bytes=LOG_BYTES), tmp_path / "told"
    host.start(UNIT, 1, ("sh", "-c", SAYS, str(told)))
    folder = tmp_path / "units" / "job-nodes-0-1"
    older, seen = folder / "log.1", set()

    def was_cut_three_times() -> bool:
        assert not host.tend(0)
        if older.exists():
            seen.add(older.read_text().splitlines()[0])
        return len(seen) == 3

    until(was_cut_three_times, "it was cut three times", HANG_S)
    told.touch()
    until(told.with_name("told.heard").exists, "it says no more", HANG_S)
    # What is said while a log is cut may be lost, and this is not to be.
    assert not host.tend(0)
    told.with_name("told.ends").touch()
    one = ended(host)
    assert one.code == 0
    assert one.said == "the end"


def test_what_was_said_before_a_cut_is_said_last(tmp_path: Path) -> None:
    host, told = HostProcesses(tmp_path / "units", 1_000), tmp_path / "told"
    waits = 'echo kcontrol: the last; while [ ! -e "$0" ]; do sleep 0.01; done'
    host.start(UNIT, 1, ("sh", "-c", waits, str(told)))
    log = tmp_path / "units" / "job-nodes-0-1" / "log"
    until(lambda: "the last" in log.read_text(), "it has said it", HANG_S)
    assert keep_short(log, 3)
    told.touch()
    assert ended(host).said == "the last"


def test_a_log_is_cut_where_there_is_no_room_for_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 10)
    assert not keep_short(log, 10)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="no space left"):
        keep_short(log, 9)
    assert log.read_bytes() == b""
