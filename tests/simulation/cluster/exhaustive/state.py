"""A state of a small cluster, whole and immutable: what Kafka holds, the hosts, and what may still go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.model import EMPTY, Place, Replica, Unit


class Faults(NamedTuple):
    """How many of each may still come."""

    agents_killed: int = 0
    """Their node processes live on."""
    hosts_killed: int = 0
    disks_lost: int = 0
    """With a host that is killed."""
    suspicions: int = 0
    """A living agent is taken for silent."""
    given_up: int = 0
    """An append that is given up, and may arrive all the same."""
    twice: int = 0
    """An entry that arrives, and once more later."""
    nodes_killed: int = 0
    can_not_run: int = 0
    """A node's process ends at once where it is started."""


NO_FAULTS = Faults()


@dataclass(frozen=True, slots=True)
class AgentState:
    """A process of an agent. replica: what it has made of the log so far. flight: its append that is under way. failed: units
    that could not run here, by placement."""

    incarnation: str
    earlier: tuple[str, ...] = ()
    before: str = ""
    replica: Replica = EMPTY
    has_read: bool = False
    flight: ClusterEntry | None = None
    failed: tuple[tuple[Unit, Place], ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process of a node, as its host knows it."""

    unit: Unit
    generation: int
    joined: bool = False


@dataclass(frozen=True, slots=True)
class HostState:
    """lives: so many incarnations there were. disk: those that it remembers."""

    name: str
    slots: int
    lives: int = 0
    disk: tuple[str, ...] = ()
    agent: AgentState | None = None
    processes: tuple[ProcessState, ...] = ()

    @property
    def incarnation(self) -> str:
        return "" if self.agent is None else self.agent.incarnation


@dataclass(frozen=True, slots=True)
class Life:
    """The process that is a unit, as readers of its pipeline's control topic know."""

    unit: Unit
    generation: int
    host: str


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry that not everybody has read."""

    offset: int
    entry: ClusterEntry


@dataclass(frozen=True, slots=True)
class State:
    """truth: of the whole log. asked: wishes of users that are on their way; wishes: so many were made. late: entries whose
    authors have given them up or have died. carried: requests that were carried out."""

    hosts: tuple[HostState, ...]
    faults: Faults = NO_FAULTS
    truth: Replica = EMPTY
    unread: tuple[Logged, ...] = ()
    rightful: tuple[Life, ...] = ()
    wishes: int = 0
    asked: tuple[ClusterEntry, ...] = ()
    late: tuple[ClusterEntry, ...] = ()
    carried: tuple[tuple[str, str], ...] = ()

    def host(self, name: str) -> HostState:
        return next(one for one in self.hosts if one.name == name)

    def is_alive(self, name: str, incarnation: str) -> bool:
        return any(one.name == name and one.incarnation == incarnation for one in self.hosts)
