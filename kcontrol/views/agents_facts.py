"""What people and programs are told of the cluster of agents: the one account of it, for the command line, HTTP,
the Console and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pydantic import Field

from kcontrol.core.cluster.diff import bounds_of
from kcontrol.core.cluster.differing import DifferingValue
from kcontrol.core.cluster.explain import explain, resizing
from kcontrol.core.cluster.fitting import fitting
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import EMPTY, STANDBY, ClusterJob, Replica
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.views.base import Facts


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """One entry, what it changed, in words, and why it was rejected, if it was. job, error: of one that says that a node
    can't run on a host, what it is a node of, and why."""

    offset: int
    at_ms: int
    kind: str
    rejection: str
    changes: tuple[str, ...]
    job: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The cluster as of an offset of its log. beats: the newest of each agent. entries: the newest, in order. troubles: what
    agents say beside their beats. differing: agents that have made another value of the log than others, by name."""

    replica: Replica = EMPTY
    beats: Sequence[Beat] = ()
    entries: Sequence[LoggedEntry] = ()
    troubles: Sequence[AgentTroubles] = ()
    differing: Mapping[str, DifferingValue] = field(default_factory=dict)


class PolicyFacts(Facts):
    """What all agents do alike."""

    scheduler: str = Field(description="How slots are shared among jobs: greedy, balanced or percentage.")
    coordinators: int = Field(description="So many processes of kcontrol coordinator are wanted.")
    beat_ms: int = Field(description="Between two beats of an agent.")
    silent_after: int = Field(
        description="So many of one's own beats without one of another's make the other silent."
    )
    silent_after_many: int = Field(description="So many while most seem silent.")
    missing_after: int = Field(
        description="So many for one to count among the missing, when it is looked whether most are."
    )
    digest_every: int = Field(description="Entries between two digests of the value.")
    snapshot_every: int = Field(description="Entries between two snapshots.")
    finished_jobs: int = Field(description="So many jobs that have ended are remembered.")
    bad_agents: int = Field(description="So many agents that could not run a node fail its job.")
    collectors: int = Field(description="So many agents may report the dead before they join.")
    agents: int = Field(description="So many agents may be known.")
    jobs: int = Field(description="So many jobs may be active.")
    job_nodes: int = Field(description="So many nodes a job may have.")

    @property
    def text(self) -> str:
        """A line for people."""
        return "policy: " + ", ".join(
            f"{name}={value}" for name, value in self.model_dump(mode="json").items()
        )


class AgentFacts(Facts):
    """An agent, and the host that it stands for."""

    agent: str
    stage: str = Field(description="How far it is in: a `member` runs nodes.")
    slots: int = Field(description="Processes of jobs that may run on its host.")
    used: int = Field(description="Nodes, and processes that stand by, that are placed there.")
    tags: list[str]
    draining: bool = Field(description="It gets no nodes.")
    coordinator: bool = Field(description="A coordinator is placed on its host.")
    coordinator_error: str = Field(
        description="Why a coordinator could not run on its host in this life of the agent; '' if none has failed there."
    )
    troubles: list[str] = Field(
        description="What it starts again and again in vain, and why; none of that counts as a failure of its host or of a job."
    )
    watches: str | None = Field(description="Whose beats it listens for; null if nobody's.")
    behind: int | None = Field(
        description="Entries of the log that it had not applied when it was heard last; null if it was not "
        "heard in this incarnation, or not lately."
    )
    differs_from: list[str] = Field(
        description="Agents that have made another value of the cluster's log, at the newest offset of which its digest and "
        "that of another agent are known: one of them is wrong."
    )

    @property
    def text(self) -> str:
        """A line for people."""
        words = [f"agent {self.agent}: {self.stage}, {self.used} of {self.slots} slots"]
        words += [f"tags {', '.join(self.tags)}"] if self.tags else []
        words += ["coordinator"] if self.coordinator else []
        words += [f"no coordinator can run there: {self.coordinator_error}"] if self.coordinator_error else []
        words += self.troubles
        words += ["draining"] if self.draining else []
        words += [f"watches {self.watches}"] if self.watches else []
        others = ", ".join(self.differs_from)
        words += [f"has made another value of the log than {others}: one of them is wrong"] if others else []
        return ", ".join(words)


class BoundsFacts(Facts):
    """Between which the number of nodes of a job follows the size of the cluster."""

    least: int
    most: int | None = Field(description="Null: as many as there is room for.")
    percentage: int = Field(description="Of the cluster's slots, where jobs are shared out by percentage.")
    room: int = Field(
        description="So many nodes as it is to have by the size of the cluster: once that has lasted for a minute, and its "
        "pipeline can have them."
    )


class JobFacts(Facts):
    """A job, and where its nodes are."""

    job: str
    state: str = Field(description="active, killed, completed or failed.")
    package: str = Field(description="What its nodes run.")
    revision: int = Field(description="Offset of its newest submission.")
    places: Mapping[str, str | None] = Field(
        description="By TASK/INDEX: the agent that runs the node; null if nobody does."
    )
    standbys: int = Field(
        description="So many processes are to stand by for its nodes; where they do, places has as standby/INDEX."
    )
    nodes: int = Field(description="So many nodes it is to have now.")
    bounds: BoundsFacts | None = Field(
        description="Null: its number of nodes is what was asked for, whatever the size of the cluster."
    )
    bounds_text: str = Field(description="The same in words; '' if there are none.")
    waits: str = Field(description="Why it does not run; '' if it does, or has ended.")
    error: str = Field(
        description="Why it has failed, or why nothing stands by for it any more; '' if neither is so."
    )
    resizes: str = Field(
        description="What another number of nodes waits for; '' if it has as many as it is to have."
    )

    @property
    def text(self) -> str:
        """A line for people."""
        more = [self.bounds_text, self.resizes or self._is_to_have()]
        return "; ".join(filter(None, (f"job {self.job}: {self._how()}", *more)))

    def _is_to_have(self) -> str:
        if self.bounds is None or self.state != "active" or self.bounds.room == self.nodes:
            return ""
        return f"the cluster has room for {self.bounds.room}, and it has {self.nodes}"

    def _how(self) -> str:
        if self.state != "active":
            return self.state + (f": {self.error}" if self.error else "")
        if self.waits:
            return f"waits: {self.waits}"
        words = [
            f"{unit} on {agent}" if agent else f"{unit} has no place" for unit, agent in self.places.items()
        ]
        there = sum(unit.startswith(f"{STANDBY}/") for unit, agent in self.places.items() if agent)
        words += [f"{there} of {self.standbys} standbys have room"] if there < self.standbys else []
        return ", ".join([*words, *filter(None, (self.error,))])


class EntryFacts(Facts):
    """An entry of the cluster's log."""

    offset: int
    at_ms: int = Field(description="Kafka's timestamp of it, milliseconds since 1970.")
    kind: str
    rejected: str = Field(description="Why it changed nothing; '' if it counted.")
    changes: list[str] = Field(description="What it changed, in words.")


def policy_of(value: Replica) -> PolicyFacts:
    """That which is in force."""
    return PolicyFacts(**asdict(value.policy))


def agents_of(seen: ClusterSeen) -> list[AgentFacts]:
    """By name."""
    value = seen.replica
    applied = {(beat.agent, beat.incarnation): beat.applied for beat in seen.beats}
    said = {(one.agent, one.incarnation): one.troubles for one in seen.troubles}
    placed = [place.agent for place in value.places().values()]
    coordinators = {place.agent for place in value.coordinators}
    found = []
    for agent in sorted(value.agents.values(), key=lambda one: one.name):
        who = agent.name, agent.incarnation
        read = applied.get(who)
        found.append(
            AgentFacts(
                agent=agent.name,
                stage=str(value.stage(agent.name)),
                slots=agent.slots,
                used=placed.count(agent.name),
                tags=list(agent.tags),
                draining=agent.draining,
                coordinator=agent.name in coordinators,
                coordinator_error=value.unable.get(agent.name, ""),
                troubles=list(said.get(who, ())),
                watches=value.pairs.get(agent.name),
                behind=None if read is None else max(0, value.offset - read),
                differs_from=list(seen.differing[agent.name].others) if agent.name in seen.differing else [],
            )
        )
    return found


def jobs_of(value: Replica, entries: Sequence[LoggedEntry] = ()) -> list[JobFacts]:
    """By precedence. entries: the newest, in order; they say why a node could not run somewhere."""
    room = fitting(value)
    return [
        _job(value, job, entries, room.get(job.name, 0))
        for job in sorted(value.jobs.values(), key=lambda one: one.id)
    ]


def _why_it_waits(value: Replica, job: ClusterJob, entries: Sequence[LoggedEntry]) -> str:
    waits = explain(value, job)
    if not waits or not any(unit.startswith(f"{job.name}/") for unit in value.bad):
        return waits
    about = (one for one in reversed(entries) if one.job == job.name and one.offset > job.revision)
    said = next((one.error for one in about if not one.rejection), "")
    return f"{waits}; {said}" if said else waits


def _bounds(job: ClusterJob, room: int) -> BoundsFacts | None:
    if job.bounds is None:
        return None
    return BoundsFacts(
        least=job.bounds.least, most=job.bounds.most, percentage=job.percentage, room=room or job.nodes
    )


def _job(value: Replica, job: ClusterJob, entries: Sequence[LoggedEntry], room: int) -> JobFacts:
    places = {
        f"{task}/{index}": None if place is None else place.agent
        for task, all_ in value.allocations.get(job.name, {}).items()
        for index, place in enumerate(all_)
    }
    return JobFacts(
        job=job.name,
        state=str(job.state),
        package=job.package,
        revision=job.revision,
        places=places,
        standbys=job.standbys,
        nodes=job.nodes,
        bounds=_bounds(job, room),
        bounds_text="" if job.bounds is None else bounds_of(job),
        waits=_why_it_waits(value, job, entries),
        error=job.error,
        resizes=resizing(value, job),
    )


def entry_of(one: LoggedEntry) -> EntryFacts:
    return EntryFacts(
        offset=one.offset,
        at_ms=one.at_ms,
        kind=one.kind,
        rejected=one.rejection,
        changes=list(one.changes),
    )
