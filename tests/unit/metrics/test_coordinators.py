"""What a coordinator tells Prometheus, from the very state machine driven by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics.coordinators import CoordinatorMetrics
from kcontrol.core.events import CommitStep, CoordinatorEvent, PartitionsAdded, StepCommitted
from kcontrol.core.model import Claim, Command, Desired, DesiredMode, FailureKind, NodePhase, StepWork
from tests.unit.core.drive import CoordinatorDriver, only, published


@dataclass
class Seconds:
    """A clock that a test moves."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Watched(CoordinatorDriver):
    """A coordinator that is looked on at."""

    work: StepWork

    def __init__(self) -> None:
        self.clock = Seconds()
        self.registry = CollectorRegistry()
        self.metrics = CoordinatorMetrics(self.registry, self.clock)
        self.metrics.began("p")
        super().__init__()

    def feed(self, event: CoordinatorEvent) -> list[Any]:
        before = self.state
        effects = super().feed(event)
        self.metrics.moved(before, self.state)
        return effects

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"pipeline": "p", **labels})

    def commit(self) -> None:
        """The attempt is written and committed, and the next transaction begun."""
        made = only(CommitStep, self.write(self.work))
        self.feed(StepCommitted(made.boundary.step, self.log.now_ms))
        self.see_step(made.boundary)
        self.ready()

    def begin(self, *ends: int) -> None:
        self.work = self.attempt(*ends)

    def in_place_after_takeover(self) -> None:
        self.join()
        self.say(phase=NodePhase.CLOSED)
        self.say()

    def retry(self) -> None:
        """The node has rolled back, the back-off is over, and the step is asked of it again."""
        self.say(phase=NodePhase.CLOSED, error="no")
        self.ready()
        self.say()
        self.tick(100)
        command = published(Command, self.feed(PartitionsAdded(self.log.now_ms)))[0]
        assert command.work is not None
        self.work = command.work
        self.say(attempt=self.work.token)


def test_phases_are_timed_and_the_process_is_in_charge_from_its_claim_to_its_resignation() -> None:
    watched = Watched()
    assert watched.value("kcontrol_coordinator_active") == 0
    watched.in_place()
    assert watched.value("kcontrol_coordinator_active") == 1
    opened = "kcontrol_coordinator_transaction_opened_timestamp_seconds"
    assert watched.value(opened) == 0
    watched.begin(6, 1)
    assert watched.state.current.attempt is not None
    assert watched.value(opened) == watched.state.current.attempt.opened_ms / 1000 > 0
    watched.clock.now += 0.3
    watched.commit()
    assert watched.value(opened) == 0
    assert watched.value("kcontrol_coordinator_phase_seconds_count", phase="attempting") == 1
    assert (
        abs((watched.value("kcontrol_coordinator_phase_seconds_sum", phase="attempting") or 0) - 0.3) < 1e-9
    )
    assert watched.value("kcontrol_attempts_total") == 1
    watched.see(Claim("p", "other", "host", 9))
    assert watched.value("kcontrol_coordinator_active") == 0


def test_a_takeover_lasts_until_all_nodes_are_in_place() -> None:
    watched = Watched()
    watched.take_over()
    watched.clock.now += 4
    assert watched.value("kcontrol_recovery_seconds_count", cause="takeover") is None
    watched.in_place_after_takeover()
    assert watched.value("kcontrol_recovery_seconds_sum", cause="takeover") == 4
    watched.begin(6, 1)
    watched.commit()
    assert watched.value("kcontrol_recovery_seconds_count", cause="takeover") == 1


def test_an_aborted_attempt_has_a_reason_and_is_recovered_from_by_the_commit_of_its_step() -> None:
    watched = Watched()
    watched.in_place()
    watched.begin(6, 1)
    watched.write(watched.work, failure=FailureKind.QUERY, error="no")
    assert watched.value("kcontrol_attempts_aborted_total", reason="query") == 1
    watched.clock.now += 2
    watched.retry()
    assert watched.value("kcontrol_attempts_total") == 2
    watched.clock.now += 1
    watched.commit()
    assert watched.value("kcontrol_recovery_seconds_sum", cause="attempt") == 3
    assert watched.value("kcontrol_attempts_aborted_total", reason="query") == 1


def test_an_attempt_that_another_coordinator_takes_over_is_counted_as_replaced() -> None:
    watched = Watched()
    watched.in_place()
    watched.begin(6, 1)
    watched.see(Claim("p", "other", "host", 9))
    assert watched.value("kcontrol_attempts_aborted_total", reason="replaced") == 1


def test_a_pause_is_no_recovery() -> None:
    watched = Watched()
    watched.take_over()
    watched.see(Desired("p", DesiredMode.PAUSED, "r1"))
    watched.clock.now += 1_000
    watched.see(Desired("p", DesiredMode.RUNNING, "r2"))
    watched.in_place_after_takeover()
    assert watched.value("kcontrol_recovery_seconds_count", cause="takeover") is None


def test_a_session_that_crashes_is_not_in_charge() -> None:
    watched = Watched()
    watched.in_place()
    watched.metrics.ended("p")
    assert watched.value("kcontrol_coordinator_active") == 0
