"""The work of one entry: a replica as it will be, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kcontrol.core.cluster.model import ANOTHER_LIFE_LEVEL, Agent, ClusterJob, Replica

T = TypeVar("T")


class EntryRejectedError(Exception):
    """The entry changes nothing; the text says why. It never leaves `apply`."""


class Change:
    """A replica while an entry is applied to it. reschedule: members, slots or jobs have changed. agents, jobs: names of
    those that were touched."""

    def __init__(self, replica: Replica, offset: int, level: int) -> None:
        self.replica = replica
        self.offset = offset
        self.level = level
        self.reschedule = False
        self.agents: set[str] = set()
        self.jobs: set[str] = set()

    def set(self, **parts: Any) -> None:
        self.replica = self.replica.but(**parts)

    def put_agent(self, agent: Agent) -> None:
        self.agents.add(agent.name)
        known = self.replica.agents.get(agent.name)
        if known is None or known.incarnation != agent.incarnation:
            self._is_able_again(agent.name)
        self.set(agents={**self.replica.agents, agent.name: agent})

    def drop_agent(self, name: str) -> None:
        self.agents.add(name)
        self._is_able_again(name)
        self.set(agents=without(self.replica.agents, name))

    def _is_able_again(self, name: str) -> None:
        """As far as is known: what its host lacked may be there in another life."""
        if name in self.replica.unable:
            self.set(unable=without(self.replica.unable, name))
            self.reschedule = True
        if self.level >= ANOTHER_LIFE_LEVEL:
            self._may_run_all_again(name)

    def _may_run_all_again(self, name: str) -> None:
        if any(name in agents for agents in self.replica.bad.values()):
            others = {
                unit: tuple(one for one in agents if one != name) for unit, agents in self.replica.bad.items()
            }
            self.set(bad={unit: agents for unit, agents in others.items() if agents})
            self.reschedule = True

    def put_job(self, job: ClusterJob) -> None:
        self.jobs.add(job.name)
        self.set(jobs={**self.replica.jobs, job.name: job})

    def drop_job(self, name: str) -> None:
        self.jobs.add(name)
        self.set(jobs=without(self.replica.jobs, name))

    def put_member(self, name: str, pairs: Mapping[str, str]) -> None:
        """The newest, in a ring with all others."""
        self.agents.add(name)
        self.set(members=(*self.replica.members, name), pairs=pairs)
        self.reschedule = True

    def author(self, name: str, incarnation: str) -> Agent:
        """Who speaks. Raises EntryRejectedError if the replica knows another incarnation by that name, or
        none."""
        agent = self.replica.agents.get(name)
        if agent is None or agent.incarnation != incarnation:
            raise EntryRejectedError("its author is not known, or an earlier incarnation")
        return agent


def without(mapping: Mapping[str, T], key: str) -> dict[str, T]:
    kept = dict(mapping)
    kept.pop(key, None)
    return kept
