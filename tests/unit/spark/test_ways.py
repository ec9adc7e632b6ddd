"""How rows find their writers follows from the query and from how the step is cut, and from nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.sink.write_step import StepWriter
from kcontrol.core.model import SourceSplit
from tests.unit.spark.works import work

WHOLE = (SourceSplit("events", 0, 0, 0, 20), SourceSplit("events", 1, 1, 0, 20))
CUT = (
    SourceSplit("events", 0, 0, 0, 20),
    SourceSplit("events", 1, 0, 20, 25),
    SourceSplit("events", 1, 1, 0, 15),
)
UNKEYED = {"narrow": True, "unkeyed": True}
KEYED = {"narrow": True}
STATEFUL = {"gathers": True, "regrouped": True}
JOINED = {"gathers": True}
"""Rows of two ways, of which one may be that of a partition's records as they are."""


def placement(
    splits: tuple[SourceSplit, ...], tasks: int = 2, partitions: int = 4, **facts: Any
) -> Placement:
    attempt = AttemptLedger(
        1, work(splits=splits, tasks=tasks, partitions=partitions), None, frozenset({"q"})
    )
    target = OutputTarget("out", "topic", partitions, tuple(range(partitions)), "exact")
    given: Any = {"narrow": False, "unkeyed": False, "stateful_operators": (), "has_watermark": False} | facts
    no_frame: Any = None
    bound = BoundQuery("q", no_frame, "append", ("out",), ("events",), **given)
    context: Any = SimpleNamespace(
        targets=lambda _bound, _attempt: (target,), sends=lambda _bound, _attempt: (), spool=None
    )
    job, ways = StepWriter(bound, context).job(attempt)
    assert job.placement is ways.placement
    return ways.placement


@pytest.mark.parametrize(
    ("facts", "splits", "wanted"),
    [
        (UNKEYED, WHOLE, Placement.DIRECT),
        (UNKEYED, CUT, Placement.TURNS),
        (KEYED, WHOLE, Placement.TURNS),
        (KEYED, CUT, Placement.EXCHANGE),
        (STATEFUL, WHOLE, Placement.TURNS),
        (STATEFUL, CUT, Placement.TURNS),
        (JOINED, WHOLE, Placement.TURNS),
        (JOINED, CUT, Placement.EXCHANGE),
    ],
)
def test_writers_take_turns_unless_that_could_change_an_order(
    facts: dict[str, bool], splits: tuple[SourceSplit, ...], wanted: Placement
) -> None:
    assert placement(splits, **facts) is wanted


@pytest.mark.parametrize("facts", [UNKEYED, KEYED, STATEFUL])
def test_one_writer_needs_nothing(facts: dict[str, bool]) -> None:
    assert placement(WHOLE, tasks=1, **facts) is Placement.SINGLE
