"""The alerts of a region that is not drained any more, as Prometheus would judge them of one region's metrics."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.core.regions.leading import RegionSeen
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import Trigger
from kcontrol.core.regions.records import RegionBeat, RegionRequest, RegionRequestKind
from kcontrol.views.regions_facts import RegionSight
from tests.support.written_region import BEGAN_MS, DEFINED, WELL, WrittenRegion, written_region
from tests.unit.metrics.test_dashboards import DOCKER

_ONE_REGION = re.compile(r"max by \(region\) \((\w+)( > 0)?\)")
NO_CUT, UNLED = "KcontrolRegionNoCut", "KcontrolRegionUnled"
HOUR_S = 3_600.0
NEWEST_CUT_S = 46.0
"""Of `written_region`, after its beginning; its newest change came at 60."""


class _NothingToTellError(Exception):
    """A query of what is not there has no answer, and no alert."""


def fires(alert: str, sight: RegionSight, at_s: float) -> bool:
    """at_s: after the region's beginning. The arithmetic of both languages is the same, of one region."""
    registry = CollectorRegistry()
    register_regions(registry, lambda: {"orders": sight})

    def told(name: str, is_positive: str | None) -> float:
        found = registry.get_sample_value(name, {"region": "orders"})
        if found is None or (is_positive and found <= 0):
            raise _NothingToTellError
        return found

    query = _ONE_REGION.sub(lambda one: f"told({one[1]!r}, {one[2]!r})", _rules()[alert])
    names = {"told": told, "time": lambda: BEGAN_MS / 1000 + at_s, "clamp_min": max}
    try:
        return bool(eval(query, names))
    except _NothingToTellError:
        return False


def _rules() -> dict[str, str]:
    groups = yaml.safe_load((DOCKER / "prometheus" / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def sight(written: WrittenRegion | None = None, beat_s: float = 61.0) -> RegionSight:
    """With a beat so long after its beginning."""
    changes = (written or written_region()).changes
    beat = RegionBeat("orders", "c", len(changes), BEGAN_MS + round(beat_s * 1000), ())
    return RegionSight(DEFINED, read_on(RegionLogView(), [*changes, beat]))


@pytest.mark.parametrize(
    ("beat_s", "at_s", "fired"),
    [
        (62.0, 65.0, []),
        (300.0, 302.0, []),
        (400.0, 402.0, [NO_CUT]),
        (62.0, 200.0, [UNLED]),
        (62.0, HOUR_S, [NO_CUT, UNLED]),
    ],
)
def test_a_region_that_is_not_drained_any_more_is_told_of(
    beat_s: float, at_s: float, fired: list[str]
) -> None:
    """By its state alone it was in order: that is what the last controller has written before it died."""
    assert [alert for alert in (NO_CUT, UNLED) if fires(alert, sight(beat_s=beat_s), at_s)] == fired


def test_a_long_period_is_waited_for() -> None:
    settings = replace(DEFINED.settings, period_ms=600_000)
    slow = replace(sight(), definition=replace(DEFINED, settings=settings))
    assert not fires(NO_CUT, slow, NEWEST_CUT_S + 1_799)
    assert fires(NO_CUT, slow, NEWEST_CUT_S + 1_801)


def test_a_region_that_is_drained_when_somebody_asks_may_have_no_cut_for_long() -> None:
    settings = replace(DEFINED.settings, trigger=Trigger.OPERATOR_DRIVEN)
    asked = replace(sight(), definition=replace(DEFINED, settings=settings))
    assert not fires(NO_CUT, asked, HOUR_S)
    assert fires(UNLED, asked, HOUR_S)


def test_one_that_is_held_is_waited_for_from_when_it_is_let_go_on() -> None:
    written = written_region()
    hold = RegionRequest("orders", RegionRequestKind.DRAIN, "ana", 1, "h", hold=True)
    seen = replace(WELL, came_to=6, in_line=frozenset("ab"), requests={RegionRequestKind.DRAIN: hold})
    written.see(70.0, seen)
    written.see(75.0, replace(seen, came_to=7))
    assert written.changes[-1].is_held
    assert not fires(NO_CUT, sight(written), HOUR_S)
    resume = RegionRequest("orders", RegionRequestKind.RESUME, "ana", 1, "r")
    written.see(HOUR_S, RegionSeen(WELL.lives, healthy=True, requests={RegionRequestKind.RESUME: resume}))
    assert not written.changes[-1].is_held
    assert not fires(NO_CUT, sight(written), HOUR_S + 290)
    assert fires(NO_CUT, sight(written), HOUR_S + 310)


def test_one_that_nobody_has_ever_looked_after_is_told_of() -> None:
    never = RegionSight(replace(DEFINED, at_ms=BEGAN_MS))
    assert fires(UNLED, never, 10.0)
    assert not fires(NO_CUT, never, 200.0)
    assert fires(NO_CUT, never, HOUR_S)
