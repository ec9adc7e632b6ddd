"""How many processes are to stand by for the nodes of a job, asked by users."""

from __future__ import annotations

from kcontrol.apps.agent.levels import raise_level
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import SetStandbys
from kcontrol.core.cluster.model import STANDBY_LEVEL, Replica
from kcontrol.requests.record import NotNowError
from kcontrol.views.agents_facts import LoggedEntry


async def needs_standbys(view: ClusterView) -> None:
    """Raise the level to that at which jobs have standbys. Raises NotNowError: some agent's version does not know that;
    ClusterError."""
    if await raise_level(view, STANDBY_LEVEL) >= STANDBY_LEVEL:
        return
    older = sorted(agent.name for agent in view.replica.agents.values() if agent.levels[1] < STANDBY_LEVEL)
    raise NotNowError(
        f"agents {', '.join(older)} run a version of kcontrol that knows no standbys: bring them up to date first. Nothing was "
        "changed"
    )


async def set_standbys(view: ClusterView, job: str, standbys: int) -> LoggedEntry:
    """Raises what `ask` raises."""

    def wish(value: Replica, request: str) -> SetStandbys:
        return SetStandbys(job, request, value.offset, standbys)

    return await view.ask(wish)
