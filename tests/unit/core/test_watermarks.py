"""One watermark for all nodes: folded like Spark's own, and never back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import EventTimes, Watermark, WatermarkPolicy, WatermarkSpec
from kcontrol.core.step.watermarks import after_step, moved, wrong_event_times
from tests.unit.core.staged import SHARED

MAX = replace(SHARED, watermarks=(WatermarkSpec("q", (10, 0), WatermarkPolicy.MAX),))


def seen(node: int, *max_ms: int) -> EventTimes:
    return EventTimes("q", node, max_ms)


@pytest.mark.parametrize(
    ("times", "operators", "least", "greatest"),
    [
        ([], (0, 0), 0, 0),
        ([seen(0, 100, 0)], (90, 0), 0, 90),
        ([seen(0, 100, 0), seen(1, 70, 50)], (90, 50), 50, 90),
        ([seen(0, 5, 7)], (0, 7), 0, 7),
        ([seen(0, 0, 0), seen(1, 0, 0)], (0, 0), 0, 0),
    ],
)
def test_each_operator_has_the_greatest_time_of_all_nodes_less_its_delay(
    times: list[EventTimes], operators: tuple[int, ...], least: int, greatest: int
) -> None:
    assert after_step(SHARED, (), times) == (Watermark("q", operators, least),)
    assert after_step(MAX, (), times) == (Watermark("q", operators, greatest),)


def test_of_several_operators_no_node_can_tell_by_itself() -> None:
    """The least of what each node would choose is 0; all together have seen more."""
    both = [seen(0, 100, 0), seen(1, 0, 60)]
    alone = [after_step(SHARED, (), [one])[0].ms for one in both]
    assert (alone, after_step(SHARED, (), both)[0].ms) == ([0, 0], 60)


def test_it_never_goes_back() -> None:
    before = (Watermark("q", (90, 50), 50),)
    assert after_step(SHARED, before, [seen(0, 80, 40)]) == before
    assert after_step(SHARED, before, []) == before
    assert after_step(SHARED, (Watermark("q", (90, 50), 70),), [seen(0, 0, 60)]) == (
        Watermark("q", (90, 60), 70),
    )


def test_it_has_moved_if_it_has_grown() -> None:
    before = (Watermark("q", (90, 50), 50),)
    assert not moved(before, (Watermark("q", (95, 50), 50),))
    assert moved(before, (Watermark("q", (90, 51), 51),))
    assert moved((), before)
    assert not moved((), (Watermark("q", (0, 0), 0),))


def test_queries_that_the_spec_does_not_name_have_none() -> None:
    assert after_step(replace(SHARED, watermarks=()), (Watermark("q", (1, 1), 1),), [seen(0, 9, 9)]) == ()


def test_what_a_node_may_report() -> None:
    assert wrong_event_times(SHARED, 1, [seen(1, 1, 2)]) == ""
    assert wrong_event_times(SHARED, 1, []) == ""
    assert wrong_event_times(SHARED, 1, [seen(1, 1)]) == (
        "reports event times of 1 watermarks of query q on node 1, where there are 2"
    )
    assert "on node 0" in wrong_event_times(SHARED, 1, [seen(0, 1, 2)])
    assert "query r on node 1, where there are 0" in wrong_event_times(
        SHARED, 1, [EventTimes("r", 1, (1, 2))]
    )
    assert wrong_event_times(SHARED, 1, [seen(1, 1, 2)] * 2) == "reports the event times of a query twice"
