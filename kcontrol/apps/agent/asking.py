"""The cluster of agents, asked by a server."""

from __future__ import annotations

from kcontrol.apps.agent.configuring import drain
from kcontrol.apps.agent.endings import kill
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.retrying import retry
from kcontrol.errors import NotFoundError
from kcontrol.requests.agents import AskAgents, Asked, HostDrainAsked, JobKillAsked, JobRetryAsked
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry


def agents_asked(settings: ClusterSettings) -> AskAgents:
    """As the commands do it."""

    async def ask(order: Asked) -> LoggedEntry:
        view = ClusterView(settings)
        try:
            if not await view.exists():
                raise NotFoundError("the cluster has no agents: start `kcontrol agent` on a host")
            match order:
                case JobKillAsked():
                    return await kill(view, order.job)
                case JobRetryAsked():
                    return await retry(view, order.job)
                case HostDrainAsked():
                    return await drain(view, order.agent, on=order.on)
        finally:
            await view.close()

    return ask
