"""The one watermark that all nodes of a query share: of each operator the greatest event time that any node has seen, less its
delay, and of those the one that Spark's policy chooses. It never goes back.

Nodes tell what they have seen, not their own watermarks: of several operators, the greatest of what the nodes chose would be
too low where the policy is 'min'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcontrol.core.model import EventTimes, PipelineSpec, Watermark, WatermarkPolicy, WatermarkSpec


def after_step(
    spec: PipelineSpec, before: Sequence[Watermark], seen: Iterable[EventTimes]
) -> tuple[Watermark, ...]:
    """By query of the spec: the watermarks after a step in which nodes have seen these event times. before: those after the
    step before; a query that is not among them has seen nothing."""
    earlier = {one.query: one for one in before}
    times = list(seen)
    return tuple(
        _folded(each, earlier.get(each.query), [one.max_ms for one in times if one.query == each.query])
        for each in spec.watermarks
    )


def _folded(spec: WatermarkSpec, before: Watermark | None, seen: Sequence[tuple[int, ...]]) -> Watermark:
    operators = []
    for number, delay_ms in enumerate(spec.delays_ms):
        reached = 0 if before is None or number >= len(before.operators_ms) else before.operators_ms[number]
        greatest = max((times[number] for times in seen), default=0)
        operators.append(max(reached, greatest - delay_ms if greatest else 0))
    choose = min if spec.policy is WatermarkPolicy.MIN else max
    chosen = choose(operators, default=0)
    return Watermark(spec.query, tuple(operators), chosen if before is None else max(before.ms, chosen))


def moved(before: Sequence[Watermark], after: Sequence[Watermark]) -> bool:
    """Whether one of them has grown, so that windows are to come out in the step that follows."""
    earlier = {one.query: one.ms for one in before}
    return any(one.ms > earlier.get(one.query, 0) for one in after)


def wrong_event_times(spec: PipelineSpec, node: int, seen: Sequence[EventTimes]) -> str:
    """What is wrong with the event times that a node reports, or ''."""
    counts = {each.query: len(each.delays_ms) for each in spec.watermarks}
    for one in seen:
        if one.node != node or counts.get(one.query) != len(one.max_ms):
            return (
                f"reports event times of {len(one.max_ms)} watermarks of query {one.query} on node {one.node}, where "
                f"there are {counts.get(one.query, 0)}"
            )
    names = [one.query for one in seen]
    return "" if len(names) == len(set(names)) else "reports the event times of a query twice"
