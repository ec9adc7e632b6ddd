"""What Spark is told of the watermark that nodes share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kcontrol.adapters.spark.query.watermark import set_watermark


class Tracker:
    """Spark's."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def currentWatermark(self) -> int:
        return self.ms

    def setWatermark(self, ms: int) -> None:
        self.ms = ms


@pytest.mark.parametrize(("before", "told", "after"), [(0, 7, 7), (7, 9, 9), (9, 7, 9)])
def test_it_never_goes_back(before: int, told: int, after: int) -> None:
    """A query that one node ran alone has one of its own, which the first boundary of several does not know."""
    tracker = Tracker(before)
    set_watermark(SimpleNamespace(watermarkTracker=lambda: tracker), told)
    assert tracker.ms == after
