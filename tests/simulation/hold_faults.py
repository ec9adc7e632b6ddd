"""Whoever drains pipelines: holds one, now and then renews it, and may die, or release it, at any moment."""

from __future__ import annotations

from collections import Counter

from kcontrol.core.model import Hold, ReadLimit
from tests.simulation.fleet import Fleet
from tests.simulation.specs import PIPELINE

_TIMEOUTS_MS = (300, 1_000, 5_000)


def pipeline_held(fleet: Fleet, counts: Counter[str]) -> bool:
    """Altogether, or up to what there is, or a little less or more, of some inputs; not all partitions may be named."""
    world, random = fleet.world, fleet.random
    limits: list[ReadLimit] = []
    if random.random() < 0.7:
        for index, item in enumerate(world.spec.inputs):
            if index and random.random() < 0.5:
                continue
            for partition, end in enumerate(world.input_ends[index]):
                to = max(0, end + int(random.random() * 4) - 2)
                if random.random() < 0.9:
                    limits.append(ReadLimit(item.topic, partition, to))
    counts["held with limits"] += bool(limits)
    _write(fleet, tuple(limits), released=False)
    return True


def hold_renewed(fleet: Fleet, counts: Counter[str]) -> bool:
    """The same once more."""
    hold, _ = fleet.world.holds.written.get(fleet.world.holds.newest, (None, 0))
    if hold is None or hold.released:
        return False
    _write(fleet, hold.limits, released=False)
    return True


def hold_released(fleet: Fleet, counts: Counter[str]) -> bool:
    """All may be read again."""
    _write(fleet, (), released=True)
    return True


def _write(fleet: Fleet, limits: tuple[ReadLimit, ...], *, released: bool) -> None:
    fleet.requests += 1
    timeout_ms = _TIMEOUTS_MS[int(fleet.random.random() * len(_TIMEOUTS_MS))]
    number = fleet.requests
    fleet.world.append(Hold(PIPELINE, "sim", number, limits, released, timeout_ms, f"r{number}"))


HOLD_FAULTS = (pipeline_held, pipeline_held, hold_renewed, hold_released)
