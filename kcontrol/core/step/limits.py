"""How far steps may read while a pipeline is held: to given offsets, and no further.

A pipeline that is held comes to its limits, makes the steps that are due of what it has read already, which read nothing,
and stands. Where the limits leave nothing to be waited for, its policy does not count: what lies before them is read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import InputRange, PipelineSpec, ReadLimit
from kcontrol.core.step.offsets import next_offset

Limits = tuple[ReadLimit, ...] | None
"""Of a pipeline that is held; None: it is not."""


def has_come(spec: PipelineSpec, steps: StepsView, limits: tuple[ReadLimit, ...]) -> bool:
    """Whether the last step has read all that it may. A limit of a topic that is no input means nothing."""
    return all(
        next_offset(steps, item, one.partition) >= one.to
        for one in limits
        for item in spec.inputs
        if item.topic == one.topic
    )


def within(ranges: Sequence[InputRange], limits: tuple[ReadLimit, ...]) -> tuple[InputRange, ...]:
    """What may be read of the ranges before all limits are reached."""
    ends = {(one.topic, one.partition): one.to for one in limits}
    topics = {one.topic for one in limits}
    return tuple(
        replace(each, to=max(each.from_, min(each.to, ends.get((each.topic, each.partition), 0))))
        if each.topic in topics
        else each
        for each in ranges
    )


def nothing_of(ranges: Sequence[InputRange]) -> tuple[InputRange, ...]:
    """The ranges, each empty."""
    return tuple(replace(each, to=each.from_) for each in ranges)


def waits_below(ranges: Sequence[InputRange], limits: tuple[ReadLimit, ...]) -> bool:
    """Whether anything of the topics that are limited may still be read."""
    topics = {one.topic for one in limits}
    return any(each.from_ < each.to for each in ranges if each.topic in topics)
