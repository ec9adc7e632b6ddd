"""What is asked of the cluster of agents, be it by HTTP. The port to whoever can ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcontrol.errors import NotFoundError
from kcontrol.views.agents_facts import LoggedEntry


@dataclass(frozen=True, slots=True)
class JobKillAsked:
    """A job is to end, and its pipeline to stop."""

    job: str


@dataclass(frozen=True, slots=True)
class HostDrainAsked:
    """No nodes are to run on an agent's host, or again some."""

    agent: str
    on: bool


@dataclass(frozen=True, slots=True)
class JobRetryAsked:
    """Nodes of a job are to be tried again also where they could not run."""

    job: str


Asked = JobKillAsked | HostDrainAsked | JobRetryAsked

AskAgents = Callable[[Asked], Awaitable[LoggedEntry]]
"""The entry by which it counts. Raises NotFoundError with the reason if it does not; ClusterError, NotNowError."""


async def no_agents(order: Asked) -> LoggedEntry:
    """Of a server that asks nobody."""
    raise NotFoundError(f"this server asks nothing of agents: {type(order).__name__}")
