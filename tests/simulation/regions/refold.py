"""Whether a change in a region's log is what the state machine makes of the one before it."""

from __future__ import annotations

from kcontrol.core.regions.decide import decide_region
from kcontrol.core.regions.records import RegionChange
from kcontrol.core.regions.value import event_of, value_of


def refolded(before: RegionChange, now: RegionChange) -> bool:
    """Where the state machine was not asked, its region is the same, or was defined anew."""
    event, after = event_of(now.happened), value_of(now).region
    if event is None:
        return after == value_of(before).region or now.definition_id != before.definition_id
    decision = decide_region(value_of(before).region, event)
    return decision.ignored is None and decision.region == after
