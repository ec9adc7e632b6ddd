"""A write that is lost just when it would say that an alarm went off: the alarm goes off again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from kcontrol.core.regions.log_view import RegionLogged, RegionLogView, read_on
from kcontrol.core.regions.model import Alarm, RegionSettings, RegionState
from kcontrol.core.regions.records import RegionEventKind
from tests.fakes.memory_kafka import Loss
from tests.fakes.memory_regions import MemoryRegionTopic
from tests.simulation.regions.lost_alarms import LostAlarms
from tests.unit.regions.led import LedRegion

SETTINGS = RegionSettings(
    "orders",
    ("a", "b"),
    period_ms=7_000,
    drain_timeout_ms=11_250,
    reset_timeout_ms=23_000,
    max_reset_attempts=2,
)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("alarm", Alarm)
def test_an_alarm_whose_change_was_not_written_goes_off_again(
    alarm: Alarm, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one that was written: nothing went off any more, and the region stood where it was for ever."""
    losing, commit = LostAlarms({alarm}), MemoryRegionTopic.commit

    def lossy(self: MemoryRegionTopic, epoch: int, position: int, records: Sequence[RegionLogged]) -> None:
        if losing.loses(read_on(RegionLogView(), self.records).newest, records):
            self.loss = loss
        commit(self, epoch, position, records)

    monkeypatch.setattr(MemoryRegionTopic, "commit", lossy)
    region = LedRegion(SETTINGS)
    region.until(lambda newest: newest.state is RegionState.SPENT, within_s=120.0)
    assert losing.lost == 1
    alarms = [one for one in region.changes() if one.happened.kind is RegionEventKind.ALARM_WENT_OFF]
    assert [one.state for one in alarms] == [
        *(RegionState.DRAINING, RegionState.RESETTING, RegionState.RESETTING, RegionState.SPENT),
    ]
    well = next(one for one in region.changes() if one.state is RegionState.PROCESSING)
    waited_ms = [then.at_ms - now.at_ms for now, then in pairwise([well, *alarms])]
    late_ms = [late - asked for late, asked in zip(waited_ms, (7_000, 11_250, 23_000, 23_000), strict=True)]
    assert all(0 <= late <= 1_500 for late in late_ms), "it is not waited for all over again"
    region.end()
