"""A region's log with drains and resets whose times are known, and what metrics have to say of it."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from kcontrol.core.regions.history import folded, history_of
from kcontrol.core.regions.leading import RegionSeen, began, next_change
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import (
    RegionChange,
    RegionDefinition,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.views.regions_facts import RegionSight

DEFINED = RegionDefinition("orders", RegionSettings("orders", ("a", "b")), "ana", 1, "d1")
WELL = RegionSeen(lives={"a": 3, "b": 4}, healthy=True)
BEGAN_MS = 1_700_000_000_000


class WrittenRegion:
    """The log of a region whose controller sees what it is told to, at such times."""

    def __init__(self) -> None:
        self.led = began(DEFINED)
        self.changes: list[RegionChange] = []
        self._write(0.0)

    def see(self, at_s: float, seen: RegionSeen) -> None:
        while (following := next_change(self.led.value, DEFINED, seen)) is not None:
            self.led = following
            self._write(at_s)

    def _write(self, at_s: float) -> None:
        by = WrittenBy("c", BEGAN_MS + round(at_s * 1000), len(self.changes) + 1)
        change = change_of(self.led.value, self.led.happened, by)
        before = self.changes[-1] if self.changes else None
        self.changes.append(replace(change, history=folded(history_of(self.changes), before, change)))

    def drain(self, from_s: float, to_s: float) -> None:
        self.see(from_s, _with_alarm(self))
        self.see(to_s, RegionSeen(WELL.lives, healthy=True, came_to=self.led.value.region.current_seq_id))

    def reset(self, name: str, from_s: float, to_s: float) -> None:
        asked = RegionRequest("orders", RegionRequestKind.RESET, "ana", 1, name)
        self.see(from_s, RegionSeen(WELL.lives, healthy=True, requests={RegionRequestKind.RESET: asked}))
        assert self.changes[-1].answers[-1].outcome is RegionOutcome.DONE
        self.see(to_s, RegionSeen(WELL.lives, healthy=True, in_line=frozenset("ab")))


def _with_alarm(written: WrittenRegion) -> RegionSeen:
    return RegionSeen(WELL.lives, healthy=True, alarm=written.led.value.region.timer)


def written_region() -> WrittenRegion:
    """Two drains, a reset to cut 2, a third drain, a reset to its cut, and a drain under way."""
    written = WrittenRegion()
    written.see(1.0, WELL)
    written.drain(10.0, 12.0)
    written.drain(20.0, 21.0)
    written.reset("r1", 30.0, 34.5)
    written.drain(40.0, 46.0)
    written.reset("r2", 50.0, 57.5)
    written.see(60.0, _with_alarm(written))
    return written


def regions() -> dict[str, RegionSight]:
    """That one, and one that nobody has looked after yet."""
    view = read_on(RegionLogView(), written_region().changes)
    idle = RegionDefinition("idle", RegionSettings("idle", ("c",)), "ana", 1, "d1")
    return {"orders": RegionSight(DEFINED, view), "idle": RegionSight(idle)}


EXPECTED = {
    "state": 1,
    "state_number": 3,
    "last_completed_id": 4,
    "drain_seconds_average": 3,
    "last_consistent_timestamp_seconds": BEGAN_MS / 1000 + 46,
    "last_drain_id": 6,
    "reset_seconds_average": 6,
    "last_reset_timestamp_seconds": BEGAN_MS / 1000 + 57.5,
    "last_reset_id": 4,
    "reset_attempts": 1,
    "drain_period_seconds": 60,
    "cut_awaited_timestamp_seconds": BEGAN_MS / 1000 + 46,
    "controller_heard_timestamp_seconds": BEGAN_MS / 1000 + 60,
}
"""By metric, what it is of `orders`. `state`: of the state that it is in."""


def shown_in(text: str) -> dict[str, float]:
    """Of what a server answers at /metrics, the same."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        sample.name.removeprefix("kcontrol_region_"): sample.value
        for sample in samples
        if sample.labels.get("region") == "orders" and sample.labels.get("state", "draining") == "draining"
    }
