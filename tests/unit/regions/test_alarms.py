"""How long a region is waited for is what its resource, or its file, says, in the session that waits."""

from __future__ import annotations

from itertools import pairwise

from kcontrol.core.kubernetes.regions import settings_of
from kcontrol.core.kubernetes.resources import REGION
from kcontrol.core.regions.model import RegionState
from kcontrol.core.regions.records import RegionEventKind
from tests.unit.kubernetes.resources import resource
from tests.unit.regions.led import LedRegion


def test_a_drain_and_resets_that_nobody_answers_take_as_long_as_the_resource_says() -> None:
    """None of the four is the default, or another one's."""
    given = {"period": 7, "drainTimeout": 11.25, "resetTimeout": 23, "maxConsecutiveResetAttempts": 2}
    region = LedRegion(settings_of(resource(REGION, "orders", {"pipelines": ["a", "b"], **given})))
    spent = region.until(lambda newest: newest.state is RegionState.SPENT)
    alarms = [one for one in region.changes() if one.happened.kind is RegionEventKind.ALARM_WENT_OFF]
    assert [one.state for one in alarms] == [
        *(RegionState.DRAINING, RegionState.RESETTING, RegionState.RESETTING, RegionState.SPENT),
    ]
    assert (spent.reset_attempt, spent.max_reset_attempts) == (2, 2)
    well = next(one for one in region.changes() if one.state is RegionState.PROCESSING)
    waited_ms = [then.at_ms - now.at_ms for now, then in pairwise([well, *alarms])]
    looks_ms = [late - asked for late, asked in zip(waited_ms, (7_000, 11_250, 23_000, 23_000), strict=True)]
    assert all(0 <= late <= 500 for late in looks_ms), waited_ms
    region.end()
