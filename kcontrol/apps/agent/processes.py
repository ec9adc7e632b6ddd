"""The processes of a host's units. They outlive their agent, and its next life finds them.

Each is led by a line of `sh` in a session of its own, which hears the same signals, outlives them, and writes
down the exit code; what there is to know
of it is a file in a folder of its own. So an agent that is started again adopts what runs, and hears of what
has ended meanwhile. That line runs nothing before it is told to go on, once the file is there; if its agent ends before, it
reads the end of the pipe and ends as well. So nothing ever runs that no agent knows of.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from kcontrol.apps.agent.numbers import GivenNumber, give_number
from kcontrol.apps.agent.unit_log import LOG_BYTES, keep_short, last_line
from kcontrol.core.cluster.model import Unit
from kcontrol.core.cluster.unit_ends import may_be_of
from kcontrol.core.cluster.work import RunningUnit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError

_log = logging.getLogger("kcontrol.agent")

_KEEPER = 'trap : TERM INT; "$@"; code=$?; echo $code > "$0.new"; mv "$0.new" "$0"; exit $code'
_GATE = 'read -r go || exit 1; exec sh -c "$0" "$@" < /dev/null'
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TICKS = 19
"""Of the fields of /proc/PID/stat behind the name, the one that says when the process began, in ticks since
the boot (proc(5), field 22)."""
_JOB = re.compile(r"[A-Za-z0-9._-]*", re.ASCII)
_TASK = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
"""No hyphen: so no two units have the same folder."""
_YOUNG_S = 2.0
STUCK_MS = 60_000
"""Whoever is there still so long after SIGKILL can't be ended."""
_TOLD_AGAIN = 3
"""Whoever is told to end so soon after it was started is told again: its keeper hears the first, and its command, which has not
begun, does not."""


@dataclass
class HostProcess:
    """One of them. folder: where what is known of it lies. identity: as of `identity_of`. founded_ms: which log of agents
    its generation is of; 0 if that was not written down, by an older version. told_to_end_ms:
    when it was sent SIGTERM. again: so often it is still to be sent. refused: that it may not be sent was said."""

    unit: Unit
    generation: int
    folder: Path
    pid: int
    identity: str
    began_s: float
    founded_ms: int = 0
    moved_ms: int | None = None
    told_to_end_ms: int | None = None
    again: int = 0
    refused: bool = False
    child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> RunningUnit:
        return RunningUnit(self.unit, self.generation, self.moved_ms)

    def remember(self) -> None:
        """For the next life of its agent."""
        facts = dict(zip(("job", "task", "index"), self.unit, strict=True))
        facts |= {
            "generation": self.generation,
            "founded_ms": self.founded_ms,
            "pid": self.pid,
            "identity": self.identity,
            "began_s": self.began_s,
        }
        written = self.folder / "process.json.new"
        written.write_text(json.dumps(facts), encoding="utf-8")
        written.replace(self.folder / "process.json")

    def is_alive(self) -> bool:
        if self.child is not None and self.child.poll() is not None:
            return False
        try:
            zombie = psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
            return not zombie and identity_of(self.pid) == self.identity
        except (psutil.Error, PermissionError):  # Another user's, where one can't see these.
            return False

    def exit_code(self) -> int | None:
        """None if its keeper was killed before it could write it down. Where it had no room to, it ended with the same, which
        the life of the agent that had started it knows."""
        with suppress(FileNotFoundError, ValueError):
            return int((self.folder / "exit").read_text())
        code = None if self.child is None else self.child.poll()
        return code if code is not None and code >= 0 else None

    def last_words(self) -> str:
        """The last line of what it said."""
        return last_line(self.folder / "log")

    def signal(self, number: int) -> None:
        """To the whole group, as far as it is still there; to nobody else who has its number by now."""
        if not self._has_the_number():
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            if not self.refused:
                what = "%s: the processes of group %d can't be told to end: %s"
                _log.warning(what, self.folder.name, self.pid, error)
            self.refused = True

    def _has_the_number(self) -> bool:
        """A number is given away once no group has it either: where another process has it, this group is gone; where none
        has, the group is what is left of this one, unless the host was started since."""
        try:
            return identity_of(self.pid) == self.identity
        except psutil.NoSuchProcess:
            return is_of_this_boot(self.identity)
        except (psutil.AccessDenied, PermissionError):
            return False


def identity_of(pid: int) -> str:
    """What tells a process from all others that ever had its number, whoever sets the clock meanwhile: the
    boot, and when in it the process began. Raises psutil.NoSuchProcess."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{_BOOT_ID.read_text().strip()}/{stat.rpartition(')')[2].split()[_START_TICKS]}"
    except (FileNotFoundError, ProcessLookupError):
        return str(psutil.Process(pid).create_time())


def is_of_this_boot(identity: str) -> bool:
    """Whether what has this identity began since the host was started last."""
    boot, _, _ = identity.rpartition("/")
    if boot:
        return _BOOT_ID.exists() and boot == _BOOT_ID.read_text().strip()
    return float(identity) >= psutil.boot_time()


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """One that has ended by itself. lived_s: for how long it ran. folder: where what is known of it lies. founded_ms: as of
    HostProcess."""

    unit: Unit
    generation: int
    code: int | None
    said: str
    lived_s: float
    folder: Path
    founded_ms: int = 0

    @property
    def with_code(self) -> str:
        """Its code, in words."""
        return "without a code" if self.code is None else f"with code {self.code}"


class HostProcesses:
    """All of them. kill_after_ms: SIGKILL so long after SIGTERM. stuck_ms: who is there still so long after that can't be
    ended. log_bytes: of what each says, twice so many are kept at most."""

    def __init__(
        self, folder: Path, kill_after_ms: int, stuck_ms: int = STUCK_MS, log_bytes: int = LOG_BYTES
    ) -> None:
        self._folder = folder
        self._kill_after_ms, self._stuck_ms, self._log_bytes = kill_after_ms, stuck_ms, log_bytes
        self._all: dict[tuple[Unit, int], HostProcess] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._adopt()

    def _adopt(self) -> None:
        for file in sorted(self._folder.glob("*/process.json")):
            try:
                found = json.loads(file.read_text(encoding="utf-8"))
            except ValueError:  # The host has lost its power before it was on the disk.
                _log.warning("%s says nothing: what ran by it is not known any more", file)
                shutil.rmtree(file.parent, ignore_errors=True)
                continue
            unit = (found["job"], found["task"], found["index"])
            process = HostProcess(
                *(unit, found["generation"], file.parent, found["pid"], found["identity"], found["began_s"]),
                founded_ms=found.get("founded_ms", 0),
            )
            self._all[unit, process.generation] = process

    def running(self) -> list[RunningUnit]:
        return [process.running for process in self._all.values()]

    def of_another_log(self, founded_ms: int) -> list[RunningUnit]:
        """Those of them whose generations mean nothing in this log of agents."""
        return [each.running for each in self._all.values() if not may_be_of(each.founded_ms, founded_ms)]

    def is_free(self, unit: Unit) -> bool:
        """Whether no process of this unit, of whatever generation, is there any more."""
        return not any(known == unit for known, _ in self._all)

    def stuck(self, unit: Unit, now_ms: int) -> str:
        """Why no process of this unit can be started, in words: one was told to end, and killed, long ago, and is there still.
        It waits for a disk that does not answer, or is another user's. '': there is none."""
        for (known, _), one in self._all.items():
            told = one.told_to_end_ms
            if known == unit and told is not None and now_ms - told >= self._kill_after_ms + self._stuck_ms:
                return f"process {one.pid}, which ran it before, can't be ended here"
        return ""

    def pids(self) -> dict[Unit, int]:
        return {unit: process.pid for (unit, _), process in self._all.items()}

    def lasting(self, short_life_s: float) -> set[Unit]:
        """Those that have run for longer."""
        now_s = time.time()
        return {unit for (unit, _), one in self._all.items() if now_s - one.began_s > short_life_s}

    def start(self, unit: Unit, generation: int, command: Sequence[str], founded_ms: int = 0) -> int:
        """Its process id. founded_ms: as of HostProcess. Raises ConfigurationError for a unit of such a name that none can be,
        OSError; then nothing runs, and nothing is left of it."""
        folder = self._folder_of(unit, generation)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return self._start(unit, generation, folder, command, founded_ms)
        except psutil.Error as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ProcessLookupError(f"what was started is not there: {error}") from error
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _start(
        self, unit: Unit, generation: int, folder: Path, command: Sequence[str], founded_ms: int
    ) -> int:
        folder.mkdir(parents=True)
        with (folder / "log").open("ab") as log:
            child = subprocess.Popen(
                ["sh", "-c", _GATE, _KEEPER, str(folder / "exit"), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert child.stdin is not None
        try:
            with child.stdin as gate:
                identity, began_s = identity_of(child.pid), time.time()
                process = HostProcess(
                    *(unit, generation, folder, child.pid, identity, began_s, founded_ms), child=child
                )
                process.remember()
                with suppress(BrokenPipeError):  # It was killed already.
                    os.write(gate.fileno(), b"go\n")
        except (OSError, psutil.Error):
            child.wait()  # It ends, as nobody tells it to go on.
            raise
        self._all[unit, generation] = process
        return child.pid

    def number_file(self, unit: Unit, generation: int) -> Path:
        """Where a standby of this placement finds its number. Raises ConfigurationError as `start` does."""
        return self._folder_of(unit, generation) / "number"

    def give(self, one: RunningUnit, unit: Unit, placement: AgentPlacement) -> int:
        """The process of a standby is this node from now on, and is told so; its process id. Raises OSError; then the same is
        to be given to it again."""
        process = self._all[one.unit, one.generation]
        before = process.unit, process.generation, process.founded_ms
        give_number(process.folder / "number", GivenNumber(unit[2], placement))
        process.unit, process.generation = unit, placement.generation
        process.founded_ms = placement.founded_ms
        try:
            process.remember()
        except OSError:
            process.unit, process.generation, process.founded_ms = before
            raise
        self._all[unit, placement.generation] = self._all.pop((one.unit, one.generation))
        return process.pid

    def stop(self, one: RunningUnit, now_ms: int) -> None:
        """SIGTERM; `tend` sees to the rest."""
        process = self._all[one.unit, one.generation]
        if process.told_to_end_ms is None:
            process.told_to_end_ms = now_ms
            process.again = _TOLD_AGAIN if time.time() - process.began_s < _YOUNG_S else 0
            _log.info("ends %s of generation %d", "/".join(map(str, one.unit)), one.generation)
            process.signal(signal.SIGTERM)

    def mark_moved(self, moved: Sequence[RunningUnit], now_ms: int) -> None:
        """These are placed elsewhere, all others are not."""
        for process in self._all.values():
            if process.running not in moved:
                process.moved_ms = None
            elif process.moved_ms is None:
                process.moved_ms = now_ms

    def tend(self, now_ms: int) -> list[EndedProcess]:
        """Kill what did not end in time. What has ended though nobody told it to; until it is forgotten, the agent's next
        life hears of it, too."""
        ended = []
        for key, process in list(self._all.items()):
            told = process.told_to_end_ms
            if process.is_alive():
                self._keep_log_short(process)
                if told is not None and now_ms - told >= self._kill_after_ms:
                    process.signal(signal.SIGKILL)
                elif process.again:
                    process.again -= 1
                    process.signal(signal.SIGTERM)
                continue
            process.signal(signal.SIGKILL)
            del self._all[key]
            if told is None:
                ended.append(
                    EndedProcess(
                        *(*key, process.exit_code(), process.last_words()),
                        *(time.time() - process.began_s, process.folder, process.founded_ms),
                    )
                )
            else:
                shutil.rmtree(process.folder, ignore_errors=True)
        return ended

    def _keep_log_short(self, process: HostProcess) -> None:
        try:
            keep_short(process.folder / "log", self._log_bytes)
        except OSError as error:
            _log.warning("%s: what it has said can't be cut: %s", process.folder.name, error)

    def forget(self, one: EndedProcess) -> None:
        """What is to be remembered of it is remembered."""
        shutil.rmtree(one.folder, ignore_errors=True)

    def _folder_of(self, unit: Unit, generation: int) -> Path:
        """One of its own, directly below that of all. Raises ConfigurationError: whoever may write the cluster's log may give
        any name to a job."""
        job, task, _ = unit
        if not _JOB.fullmatch(job) or not _TASK.fullmatch(task):
            raise ConfigurationError(
                f"no process can be started for task {task!r} of job {job!r}: these can't be names of files; kcontrol place "
                "gives a job the name of its pipeline"
            )
        return self._folder / "-".join((*map(str, unit), str(generation)))
