"""What a node tells Prometheus of its steps."""

from __future__ import annotations

import logging
from itertools import count

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics.nodes import NodeMetrics
from kcontrol.sessions.timeline import Timeline

LABELS = {"pipeline": "p", "node": "2"}
SECOND_NS = 1_000_000_000


def test_phases_of_committed_steps_are_timed_and_replays_are_counted_apart() -> None:
    registry = CollectorRegistry()
    ticks = count(0, SECOND_NS)
    timeline = Timeline(logging.getLogger("test"), lambda: next(ticks), NodeMetrics(registry, "p", 2))
    timeline.begin(6, replay=True)
    timeline.mark(6, "written")
    timeline.end(6)
    timeline.begin(7, replay=False)
    for phase in ("written", "committed"):
        timeline.mark(7, phase)
    timeline.mark(8, "written")
    timeline.end(7)
    timeline.add("recorded", 1_000)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**LABELS, **labels})

    for phase in ("written", "committed", "recorded"):
        assert value("kcontrol_node_step_phase_seconds_count", phase=phase) == 1
        assert value("kcontrol_node_step_phase_seconds_sum", phase=phase) == 1
    assert value("kcontrol_node_replayed_steps_total") == 1


def test_an_attempt_that_was_aborted_is_not_timed() -> None:
    registry = CollectorRegistry()
    ticks = count(0, SECOND_NS)
    timeline = Timeline(logging.getLogger("test"), lambda: next(ticks), NodeMetrics(registry, "p", 2))
    timeline.begin(7, replay=False)
    timeline.mark(7, "written")
    timeline.begin(7, replay=False)
    timeline.mark(7, "written")
    timeline.end(7)
    assert (
        registry.get_sample_value("kcontrol_node_step_phase_seconds_count", {**LABELS, "phase": "written"})
        == 1
    )
