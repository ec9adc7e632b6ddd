"""What operators ask of a cluster of agents: another policy, and hosts without nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.apps.agent.levels import raise_level
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import Configure, Drain, DrainAgent, SetPolicy
from kcontrol.core.cluster.model import AS_OF_LEVEL, Replica
from kcontrol.errors import ConfigurationError
from kcontrol.requests.policies import changed_policy
from kcontrol.views.agents_facts import LoggedEntry


async def configure(view: ClusterView, asked: Sequence[str]) -> LoggedEntry:
    """Have all agents do something else alike. asked: NAME=VALUE each. Raises ConfigurationError, and what `ask` raises."""
    policy = changed_policy((await view.look()).policy, asked)
    if policy == view.replica.policy:
        raise ConfigurationError("that is in force already: kcontrol cluster shows it")
    await raise_level(view, AS_OF_LEVEL)

    def wish(value: Replica, _request: str) -> Configure | SetPolicy:
        wanted = changed_policy(value.policy, asked)
        return SetPolicy(wanted, value.offset) if value.level >= AS_OF_LEVEL else Configure(wanted)

    return await view.ask(wish)


async def drain(view: ClusterView, agent: str, on: bool) -> LoggedEntry:
    """Have no nodes on an agent's host, or again some. Raises what `ask` raises."""
    await raise_level(view, AS_OF_LEVEL)

    def wish(value: Replica, _request: str) -> Drain | DrainAgent:
        return DrainAgent(agent, on, value.offset) if value.level >= AS_OF_LEVEL else Drain(agent, on)

    return await view.ask(wish)
