"""What is submitted for the cluster to run: one set of equal nodes of a pipeline, from a file that the hosts have."""

from __future__ import annotations

from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.nodes import FILE, check_file
from kcontrol.core.cluster.entries import SubmitJob
from kcontrol.core.cluster.model import Replica, TaskSpec
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry

TASK = "nodes"


async def place(
    view: ClusterView, job: str, nodes: int, file: str, tags: tuple[str, ...] = ()
) -> LoggedEntry:
    """Have the cluster run it; the same again changes nothing. Raises NotFoundError, ClusterError,
    ConfigurationError."""
    package, task = FILE + check_file(file), TaskSpec(TASK, nodes, nodes, tags)

    def wish(value: Replica, request: str) -> SubmitJob:
        return SubmitJob(job, request, value.offset, package, (task,))

    return await view.ask(wish)


async def place_if_there_are_agents(
    settings: ClusterSettings, job: str, nodes: int, file: str, wanted: bool | None
) -> LoggedEntry | None:
    """After a pipeline was submitted. None, and nothing is done, where there are no agents, or it is not wanted.

    wanted: None: if there are members now. Raises NotFoundError if it must be and there are none, and what
    `place` raises.
    """
    if wanted is False:
        return None
    view = ClusterView(settings)
    try:
        if await view.exists() and (await view.look()).members:
            return await place(view, job, nodes, file)
    finally:
        await view.close()
    if wanted:
        raise NotFoundError(
            "the cluster has no agents: start `kcontrol agent` on a host, or leave out --place"
        )
    return None
