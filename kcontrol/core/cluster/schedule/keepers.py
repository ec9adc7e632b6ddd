"""Which agents have the processes of `kcontrol coordinator`: as many as are wanted, on agents of their own. They take no slot
and stay where they are, but where one can't run while it could elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence

from kcontrol.core.cluster.model import Place, Replica

Free = Callable[[Collection[str], int], Sequence[str]]
"""Names of usable agents without these, the next to be chosen first, and at least so many of them if there are."""


def is_able(replica: Replica, agent: str) -> bool:
    """Whether nobody has said that a coordinator can't run on its host."""
    return agent not in replica.unable


def chosen(replica: Replica, usable: Container[str], free: Free, offset: int) -> tuple[Place, ...]:
    """After an entry at `offset`. None is where it can't run while an agent without one could; where there is no better one, it
    stays, and is tried again and again by its agent."""
    wanted = replica.policy.coordinators
    there = [place for place in replica.coordinators if place.agent in usable]
    running = [place for place in there if is_able(replica, place.agent)][:wanted]
    if len(running) == wanted:
        return tuple(running)
    others = free({place.agent for place in there}, wanted + len(replica.unable))
    able = [name for name in others if is_able(replica, name)][: wanted - len(running)]
    missing = wanted - len(running) - len(able)
    stuck = [place for place in there if not is_able(replica, place.agent)][:missing]
    at_last = [name for name in others if not is_able(replica, name)][: missing - len(stuck)]
    return (*running, *stuck, *(Place(name, offset) for name in (*able, *at_last)))
