"""What an agent has to run and to end, against what runs on its host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import STANDBY, AgentStage, Place, Replica, Unit


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """A process on this host. moved_ms: when its agent first saw that its unit is placed elsewhere, by its
    monotonic clock."""

    unit: Unit
    generation: int
    moved_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """stop: to be ended now. handed_over: placed elsewhere, which the process there will bring to an end by
    joining. start: units that run nowhere on this host, each with its place. given: standbys whose process is to be that unit,
    at that place, from now on."""

    stop: tuple[RunningUnit, ...] = ()
    handed_over: tuple[RunningUnit, ...] = ()
    start: tuple[tuple[Unit, Place], ...] = ()
    given: tuple[tuple[RunningUnit, Unit, Place], ...] = ()


NOTHING_TO_DO = Work()


def wanted(replica: Replica, me: Identity) -> Mapping[Unit, Place]:
    """What should run on this agent, in this incarnation or an earlier one, whose processes it has
    adopted."""
    if not me.is_known_by(replica) and not me.was_known_by(replica):
        return {}
    return _by_agent(replica).get(me.name, {})


@looked_up("allocations")
def _by_agent(replica: Replica) -> dict[str, dict[Unit, Place]]:
    found: dict[str, dict[Unit, Place]] = {}
    for unit, place in replica.places().items():
        found.setdefault(place.agent, {})[unit] = place
    return found


def work(
    replica: Replica, me: Identity, running: Collection[RunningUnit], now_ms: int, handover_ms: int
) -> Work:
    """handover_ms: after so long a unit that moved is ended here, if its new process has not done it.

    Every process whose placement is not the one in the value is ended, whatever led there: what was put here
    by an entry that has been overtaken matches no later entry.
    """
    mine = wanted(replica, me)
    kept = {one.unit for one in running if one.unit in mine and mine[one.unit].generation == one.generation}
    if len(kept) == len(mine) == len(running):
        return NOTHING_TO_DO
    everywhere = replica.places()
    is_member = replica.stage(me.name) is AgentStage.MEMBER and me.is_known_by(replica)
    stop, handed_over, given = [], [], []
    waited_for = {
        ((unit[0], STANDBY, place.standby), place.stood): unit
        for unit, place in mine.items()
        if place.stood_by and unit not in kept
    }
    for one in running:
        place = mine.get(one.unit)
        if place is not None and place.generation == one.generation:
            continue
        unit = waited_for.get((one.unit, one.generation))
        if unit is not None:
            given.append((one, unit, mine[unit]))
            kept.add(unit)
            continue
        lingers = is_member and place is None and one.unit in everywhere
        if lingers and (one.moved_ms is None or now_ms - one.moved_ms < handover_ms):
            handed_over.append(one)
        else:
            stop.append(one)
    start = sorted((unit, place) for unit, place in mine.items() if unit not in kept)
    return Work(tuple(stop), tuple(handed_over), tuple(start), tuple(given))
