"""How many processes are to stand by for the nodes of a job, asked by users."""

from __future__ import annotations

from kcontrol.apps.agent.levels import need_level
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import SetStandbys
from kcontrol.core.cluster.model import LEFT_ROOM_LEVEL, STANDBY_LEVEL, Replica
from kcontrol.views.agents_facts import LoggedEntry


async def needs_standbys(view: ClusterView) -> None:
    """Raise the level to that at which jobs have standbys, and where everybody supports it to that at which none of them waits
    for room that another one has left. Raises NotNowError: some agent's version does not know standbys; ClusterError."""
    await need_level(view, STANDBY_LEVEL, "knows no standbys", to=LEFT_ROOM_LEVEL)


async def set_standbys(view: ClusterView, job: str, standbys: int) -> LoggedEntry:
    """Raises what `ask` raises."""

    def wish(value: Replica, request: str) -> SetStandbys:
        return SetStandbys(job, request, value.offset, standbys)

    return await view.ask(wish)
