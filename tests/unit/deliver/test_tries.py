"""Tries of a delivery: a step that can't be applied is given up in the end, and a target that can't tell what it holds may be
begun anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kcontrol.apps.deliver import delivery as delivering
from kcontrol.apps.deliver.delivery import Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import DeliveryState, Progress
from kcontrol.apps.deliver.target import Target
from kcontrol.core.model import StepBoundary
from kcontrol.core.step.following import Applied, Delivered, Guarantee, LogFacts, PlacedRecords, StepVerdict
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.samples import boundary

HELD = 5
MOST_TRIES = 25
"""Without an end to them, the test ends them."""


class _Target:
    """Holds step 5, and takes no other one. can_tell: what it holds."""

    guarantee, kind, held_by, name = Guarantee.EXACTLY_ONCE, "test", "", "target"

    def __init__(self, *, can_tell: bool = True) -> None:
        self.held, self.can_tell = Applied("p", "log", HELD), can_tell
        self.tried: list[int] = []
        self.done: list[str] = []
        self.stop: Callable[[], None] = lambda: None
        self.state: Callable[[], DeliveryState] = lambda: DeliveryState.STARTING
        self.states: list[DeliveryState] = []

    def open(self) -> None: ...

    def close(self) -> None: ...

    def applied(self) -> Applied | None:
        if not self.can_tell:
            raise DeliveryHaltedError("it was taken back: begin anew with --resync")
        return self.held

    def forget(self) -> None:
        self.done.append("forgotten")

    def begin(self, log_id: str, step: int) -> None:
        self.done.append(f"begun at {step}")
        self.held, self.can_tell = Applied("p", log_id, step), True

    def take(self) -> Applied | None:
        return self.applied()

    def halted(self, reason: str) -> None: ...

    def beat(self, last_in_log: int) -> None: ...

    def apply(
        self, step: int, its_print: str, committed_ms: int, records: PlacedRecords, follows: int
    ) -> Delivered:
        if step <= self.held.step:
            return Delivered(StepVerdict.DUPLICATE, self.held)
        self.tried.append(step)
        self.states.append(self.state())
        if len(self.tried) == MOST_TRIES:
            self.stop()
        raise TargetAwayError("the server has answered 503")


class _Watch:
    """Of a log of nine steps."""

    lag_steps, given, last = 0, HELD, 9

    def facts(self) -> LogFacts:
        return LogFacts("p", "log", 1, 9)

    def begin(self) -> None: ...

    def close(self) -> None: ...

    def delivered(self, step: int) -> None: ...

    def in_hand(self, made: StepBoundary) -> None: ...


class _Step:
    """A StreamedStep without records."""

    def __init__(self, number: int) -> None:
        self.number, self.follows, self.boundary = number, number - 1, boundary("p", number)

    def chunks(self) -> Iterator[Any]:
        return iter(())

    def skip(self) -> None: ...


class _Steps:
    """A StepConsumer of that log."""

    log_id = "log"

    def __init__(self, *_: Any, from_step: int, **__: Any) -> None:
        self.left = [_Step(step) for step in range(from_step, 10)]

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *_: object) -> None: ...

    def streamed(self) -> Iterator[_Step]:
        while self.left:
            yield self.left.pop(0)


def _run(monkeypatch: pytest.MonkeyPatch, target: _Target, options: DeliveryOptions) -> Progress:
    monkeypatch.setattr(delivering, "StepConsumer", _Steps)
    progress, settings = Progress(), ClusterSettings(bootstrap_servers="127.0.0.1:1")
    delivery = Delivery(
        settings, "p", "out", cast(Target, target), options, progress, cast(LogWatch, _Watch())
    )
    target.stop, target.state = delivery.stop, lambda: progress.facts.state
    delivery.run()
    return progress


def test_a_step_that_the_target_does_not_take_is_given_up_though_the_one_before_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try begins with the step before, to be compared: that is no success, after which waits and the time that is given
    would begin again."""
    target = _Target()
    options = DeliveryOptions(poll_s=0.01, longest_wait_s=0.2, give_up_s=1)
    with pytest.raises(TargetAwayError, match="did not succeed within 1000 ms: the server has answered 503"):
        _run(monkeypatch, target, options)
    assert set(target.tried) == {HELD + 1}
    assert target.states[0] is DeliveryState.RUNNING
    assert set(target.states[1:]) == {DeliveryState.AWAY}, "nobody is told that it runs"


def test_a_target_that_can_not_tell_what_it_holds_is_begun_anew_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = _Target(can_tell=False)
    options = DeliveryOptions(start="7", resync=True, poll_s=0.01, longest_wait_s=0.2, give_up_s=0.1)
    with pytest.raises(TargetAwayError):
        _run(monkeypatch, target, options)
    assert target.done == ["forgotten", "begun at 6"]
    assert set(target.tried) == {7}


def test_nothing_is_forgotten_for_a_beginning_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    target = _Target()
    with pytest.raises(ConfigurationError, match="give 10 at most"):
        _run(monkeypatch, target, DeliveryOptions(start="11", resync=True, poll_s=0.01))
    assert target.done == []
