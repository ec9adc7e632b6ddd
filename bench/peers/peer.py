"""What the bench needs to know of a stream processor to run it: what it lacks on this machine, and its command lines for
one job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

WORKLOADS = ("passthrough", "keyed", "aggregate")
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"


class PeerMissingError(RuntimeError):
    """Something that a peer needs is not on this machine and can't be had; the text is one sentence that names it."""


@dataclass(frozen=True)
class Job:
    """One workload from one topic into another. group: of the consumers, and a prefix of all that the peer names in Kafka.

    home: an empty directory for its state. commit_ms: from one commit to the next.
    """

    workload: str
    bootstrap_servers: str
    source: str
    sink: str
    group: str
    cores: int
    commit_ms: int
    home: Path


Command = tuple[str, ...]
Commands = Callable[[Job], Sequence[Command]]
"""One process for each; together they are to use `cores` cores. Each runs until its standard input ends."""


@dataclass(frozen=True)
class Peer:
    """A stream processor that commits its place in the source to the job's group in Kafka.

    prepare: gets whatever it needs. Raises PeerMissingError, or an error of kcontrol's own when that is Java or jars.
    is_slow: a backlog of an eighth lasts long enough.
    """

    name: str
    title: str
    prepare: Callable[[], Commands]
    is_slow: bool = False
    workloads: Sequence[str] = WORKLOADS


def options_of(job: Job) -> dict[str, str]:
    """For a command line, by name."""
    return {
        "workload": job.workload,
        "bootstrap-servers": job.bootstrap_servers,
        "source": job.source,
        "sink": job.sink,
        "group": job.group,
        "home": str(job.home),
        "commit-ms": str(job.commit_ms),
    }


def missing_packages(lock: Path, error: subprocess.SubprocessError) -> str:
    """What it means, in one sentence, that pip could not make an environment of this lock."""
    said = str(getattr(error, "stderr", None) or error).strip().splitlines()
    version = ".".join(map(str, sys.version_info[:2]))
    return (
        f"It needs an environment with the packages of {lock.name} for Python {version}, from an index that this machine "
        f"reaches, and pip said: {said[-1]}"
    )
