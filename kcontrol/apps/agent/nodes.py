"""What an agent runs for a unit: a file that is on the host already, below the one folder that its operator
has named.

So whoever may write the cluster's log can choose among these files, and run nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from kcontrol.core.cluster.model import ClusterJob, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError

FILE = "file:"
"""What the package of a job begins with, whose code is a file on the hosts."""
_PLACEMENT = re.compile(r"(\d{1,18})/(\d{1,18})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")


def check_agent_name(what: str, name: str) -> str:
    """Return the name of an agent or tag. Raises ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} {name!r} is not allowed: use 1 to 63 letters, digits, '.', '_' and '-', beginning with one of the "
            "first two"
        )
    return name


def check_file(name: str) -> str:
    """Return a path below the agents' folder as it is submitted. Raises ConfigurationError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ConfigurationError(
            f"{name!r} is not a path below the folder that agents run files from: give it relative to that one"
        )
    return str(path)


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


class NodeCommands:
    """The commands of nodes and of the coordinator on this host."""

    def __init__(self, files: Path, bootstrap_servers: str, work_dir: Path) -> None:
        self._files = files.resolve()
        self._servers = bootstrap_servers
        self._work_dir = work_dir

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        """Raises ConfigurationError: the file is not there, or no file of that folder."""
        file = (self._files / check_file(job.package.removeprefix(FILE))).resolve()
        if not job.package.startswith(FILE) or not file.is_relative_to(self._files):
            raise ConfigurationError(f"this agent runs files below {self._files} only, not {job.package!r}")
        if not file.is_file():
            raise ConfigurationError(f"there is no {file} on this host: put it there, as on every host")
        nodes = sum(task.min for task in job.tasks)
        return self._kcontrol(
            *("node", str(file), "--node", str(unit[2]), "--nodes", str(nodes)),
            *("--work-dir", str(self._work_dir), "--placement", placement_text(placement)),
        )

    def coordinator(self, agent: str) -> Sequence[str]:
        return self._kcontrol("coordinator", "--instance", agent)

    def _kcontrol(self, *arguments: str) -> Sequence[str]:
        return (sys.executable, "-m", "kcontrol.cli", *arguments, "--bootstrap-servers", self._servers)
