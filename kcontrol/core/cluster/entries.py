"""What the log of a cluster holds. An entry says who asks for what; what follows is computed from the
replica, as whoever wrote it may have seen an older one."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.model import FIRST_LEVEL, ClusterPolicy, Scheduler, TaskSpec

# --- joining and leaving, by agents ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Asks to join, or goes on as the next incarnation of a known agent.

    previous: the incarnation that it takes the place of, '' if none. lost: its disk does not remember that
    one, which was silent; so its place in the ring and its units are given up. began_ms: when it began, by its
    wall clock. once: it gives up where it would have to wait; no agent asks for that (decision 161).
    """

    agent: str
    incarnation: str
    previous: str = ""
    lost: bool = False
    slots: int = 1
    tags: tuple[str, ...] = ()
    levels: tuple[int, int] = (FIRST_LEVEL, FIRST_LEVEL)
    once: bool = False
    began_ms: int = 0


@dataclass(frozen=True, slots=True)
class Notify:
    """The joiner hears whom it will watch."""

    agent: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Accept:
    """The watcher-to-be hears the joiner: it is a member."""

    agent: str
    incarnation: str
    by: str
    by_incarnation: str


@dataclass(frozen=True, slots=True)
class Abort:
    """A join is given up, by the joiner, which is asked to go, or by one of the two members beside it."""

    agent: str
    incarnation: str
    by: str
    by_incarnation: str


@dataclass(frozen=True, slots=True)
class Leave:
    """A member is no member any more."""

    agent: str
    incarnation: str
    by: str
    by_incarnation: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PeerGc:
    """Who is about to join says that it will look for the dead. No agent says so: who waits may report them anyway (decision
    161)."""

    by: str
    by_incarnation: str
    levels: tuple[int, int] = (FIRST_LEVEL, FIRST_LEVEL)


# --- jobs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """as_of: the user had read the log up to here; another wish about the job since then makes this one
    void."""

    job: str
    request: str
    as_of: int
    package: str
    tasks: tuple[TaskSpec, ...]
    task_scheduler: Scheduler = Scheduler.BALANCED
    percentage: int = 0


@dataclass(frozen=True, slots=True)
class KillJob:
    """as_of: as of a submission."""

    job: str
    request: str
    as_of: int


@dataclass(frozen=True, slots=True)
class ResizeJob:
    """Another number of nodes, while those that stay go on. as_of: as of a submission."""

    job: str
    request: str
    as_of: int
    nodes: int


@dataclass(frozen=True, slots=True)
class SetStandbys:
    """So many processes that stand by for the nodes of a job; nothing else of it changes. as_of: as of a submission."""

    job: str
    request: str
    as_of: int
    standbys: int


@dataclass(frozen=True, slots=True)
class SetBounds:
    """As many nodes as the cluster has room for, from `least` to `most` (None: no bound); where both are equal, so many
    whatever its size. percentage: of the cluster, where jobs are shared out by percentage. Nothing else of the job changes.
    as_of: as of a submission."""

    job: str
    request: str
    as_of: int
    least: int
    most: int | None
    percentage: int


@dataclass(frozen=True, slots=True)
class FitJob:
    """The number of nodes of a job that follows the size of the cluster: its warden has seen that its pipeline can have them.

    as_of: its author had read the cluster's log up to here. anew: all its nodes begin anew with that number, as they keep
    nothing that would have to be moved; otherwise those that stay go on.
    """

    job: str
    revision: int
    as_of: int
    nodes: int
    anew: bool


@dataclass(frozen=True, slots=True)
class JobResized:
    """The log of a job's pipeline says how many nodes its layout has, and no change of it is under way.

    as_of: its author had read the cluster's log up to here before it read that one.
    """

    job: str
    revision: int
    as_of: int
    nodes: int


@dataclass(frozen=True, slots=True)
class CompleteTask:
    """All that a task was to do is done."""

    job: str
    revision: int
    task: str


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """An agent can't run what is placed on it. useless: no other agent would do better."""

    job: str
    task: str
    index: int
    generation: int
    agent: str
    incarnation: str
    error: str
    useless: bool = False


# --- by operators -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drain:
    """No units on this agent, or again some."""

    agent: str
    on: bool


@dataclass(frozen=True, slots=True)
class Configure:
    """Another policy, whole."""

    policy: ClusterPolicy


@dataclass(frozen=True, slots=True)
class DrainAgent:
    """As `Drain`. as_of: the operator had read the log up to here; another wish about the agent since then makes this one
    void."""

    agent: str
    on: bool
    as_of: int


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """As `Configure`. as_of: as of a drain; of another policy since then."""

    policy: ClusterPolicy
    as_of: int


@dataclass(frozen=True, slots=True)
class RaiseLevel:
    """From here on the function of that level is applied; it counts only if everybody known supports it."""

    level: int


# --- snapshots ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProposeSnapshot:
    """A member has saved the value at an offset."""

    by: str
    by_incarnation: str
    offset: int
    digest: str


@dataclass(frozen=True, slots=True)
class ConfirmSnapshot:
    """Another member has the same value there."""

    by: str
    by_incarnation: str
    offset: int
    digest: str


ClusterEntry = (
    Prepare
    | Notify
    | Accept
    | Abort
    | Leave
    | PeerGc
    | SubmitJob
    | KillJob
    | ResizeJob
    | SetStandbys
    | SetBounds
    | FitJob
    | JobResized
    | CompleteTask
    | TaskFailed
    | Drain
    | Configure
    | DrainAgent
    | SetPolicy
    | RaiseLevel
    | ProposeSnapshot
    | ConfirmSnapshot
)
