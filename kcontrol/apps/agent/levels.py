"""The level of a cluster's value, raised by whoever first asks for what needs it."""

from __future__ import annotations

from contextlib import suppress

from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import RaiseLevel
from kcontrol.errors import NotFoundError
from kcontrol.requests.record import NotNowError

TRIES = 12
"""More than there are levels: somebody else may raise it as well."""


async def raise_level(view: ClusterView, to: int) -> int:
    """The level, once it is this one, or as near to it as all known agents support. Raises NotNowError, ClusterError."""
    for _ in range(TRIES):
        value = await view.look()
        known = min((agent.levels[1] for agent in value.agents.values()), default=value.level)
        if value.level >= min(known, to):
            return value.level
        with suppress(NotFoundError):  # Somebody else has raised it.
            await view.ask(lambda now, _request: RaiseLevel(now.level + 1))
    raise NotNowError("the level of the cluster's value could not be raised: ask again")


async def need_level(view: ClusterView, needed: int, cannot: str, to: int = 0) -> None:
    """Raise it to `to`, or to what is needed if that is more, as far as all support it. Raises NotNowError, saying what older
    agents' version can't, if it then is not what is needed; ClusterError."""
    if await raise_level(view, max(needed, to)) >= needed:
        return
    older = sorted(agent.name for agent in view.replica.agents.values() if agent.levels[1] < needed)
    raise NotNowError(
        f"agents {', '.join(older)} run a version of kcontrol that {cannot}: bring them up to date first. Nothing was changed"
    )
