"""What the thread of a query that is planned once does, and when. No Spark: its plans are a fake."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.exchanging import Stages
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.adapters.spark.engine.ahead import Shape
from kcontrol.adapters.spark.engine.once import OnceQuery
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.sink.writer_plan import Ways
from kcontrol.errors import StepFailedError
from tests.support.patience import HANG_S
from tests.unit.spark.works import work

PEER = Peer(1, "totals")
TARGET = OutputTarget("out", "topic", 4, (0, 1, 2, 3), "exact")


class Plans:
    """Remembers that a plan was made, and that it was run."""

    def __init__(self) -> None:
        self.prepared, self.has_run = threading.Event(), threading.Event()

    def shape_of(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        return None

    def run(self, shape: Shape, step: int) -> None:
        raise AssertionError("no job is begun ahead")

    def prepare(self, attempt: AttemptLedger, ways: Ways) -> None:
        self.prepared.set()

    def run_step(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        self.has_run.set()

    def ran(self, step: int) -> None:
        pass

    def decided(self, attempt: AttemptLedger) -> None:
        pass

    def settings(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


class Groups:
    """Of Spark's jobs, by name: those that were named, and those whose jobs were cancelled."""

    def __init__(self) -> None:
        self.named: list[str] = []
        self.cancelled: set[str] = set()
        self.all_named = threading.Semaphore(0)

    def name(self, group: str, *_: object, **_more: object) -> None:
        self.named.append(group)
        self.all_named.release()


def once_query(
    plans: Plans, gate: StepGate, ended: list[StepFailedError], groups: Groups | None = None
) -> OnceQuery:
    nothing: Any = lambda *_args, **_named: None  # noqa: E731
    groups = groups or Groups()
    spark: Any = SimpleNamespace(
        conf=SimpleNamespace(getAll={}),
        sparkContext=SimpleNamespace(
            setLocalProperty=nothing, setJobGroup=groups.name, cancelJobGroup=groups.cancelled.add
        ),
    )
    context: Any = SimpleNamespace(targets=lambda *_: (TARGET,), sends=lambda *_: (), spool=None)
    no_frame: Any = None
    bound = BoundQuery(
        "totals", no_frame, "update", ("out",), (), narrow=False, unkeyed=False, stateful_operators=("a",),
        has_watermark=False,
    )  # fmt: skip
    small: Any = SimpleNamespace(next_is_like=nothing)
    return OnceQuery(spark, bound, plans, context, gate, PEER, 0.0, small, ended.append)


def test_a_query_that_waits_for_rows_of_other_nodes_has_its_plan_by_the_time_they_come() -> None:
    plans, gate, ended = Plans(), StepGate(), list[StepFailedError]()
    gate.begin_session(PEER.session, 1)
    query = once_query(plans, gate, ended)
    query.start(0)
    stages = Stages(0, {"x.send": 0, "totals": 1}, {"x": 1})
    attempt = AttemptLedger(7, work(), None, frozenset(stages.of_work), stages=stages)
    gate.release(attempt)
    assert plans.prepared.wait(HANG_S)
    assert not plans.has_run.is_set()
    attempt.exchanging.begin(1, ())
    assert plans.has_run.wait(HANG_S)
    attempt.cancel("the test is over")
    query.stop()
    assert not ended


def test_who_is_stopped_cancels_no_jobs_of_another_that_has_its_name_and_session() -> None:
    """As what is rehearsed for a new layout has those of what runs."""
    groups, ended = Groups(), list[StepFailedError]()
    gates = StepGate(), StepGate()
    queries = [once_query(Plans(), gate, ended, groups) for gate in gates]
    for gate, query in zip(gates, queries, strict=True):
        gate.begin_session(PEER.session, 1)
        query.start(0)
        assert groups.all_named.acquire(timeout=HANG_S)
    running, rehearsed = groups.named
    queries[1].stop()
    assert rehearsed in groups.cancelled
    assert running not in groups.cancelled
    queries[0].stop()
    assert not ended
