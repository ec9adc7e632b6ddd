"""A log that seems to be another one, or shorter than what was delivered, is looked at again before a delivery halts; one that
has lost void steps alone does not halt it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from kcontrol.apps.deliver import delivery as delivering
from kcontrol.apps.deliver.delivery import Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import DeliveryState, Progress
from kcontrol.apps.deliver.target import Target
from kcontrol.core.log.resets import Resets, VoidSteps
from kcontrol.core.step.following import Applied, Guarantee, LogFacts
from kcontrol.errors import DeliveryHaltedError
from kcontrol.settings.cluster import ClusterSettings

HELD = Applied("p", "new", 5)
OPTIONS = DeliveryOptions(poll_s=0.01, settle_s=0.05)


class _Target:
    """Holds step 5 of the log `new`."""

    guarantee, kind, held_by, name = Guarantee.EXACTLY_ONCE, "test", "", "target"

    def open(self) -> None: ...

    def close(self) -> None: ...

    def applied(self) -> Applied | None:
        return HELD

    def take(self) -> Applied | None:
        return HELD

    def halted(self, reason: str) -> None: ...

    def beat(self, last_in_log: int) -> None: ...


class _Watch:
    """Shows these logs one after the other, and the last one ever after. resets: that are in it."""

    lag_steps, given, last = 0, 5, 5

    def __init__(self, *shown: LogFacts, resets: Resets = ()) -> None:
        self.shown, self.resets, self.looks = list(shown), resets, 0

    def facts(self) -> LogFacts:
        self.looks += 1
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]

    def with_resets(self, log: LogFacts) -> LogFacts:
        return replace(log, resets=self.resets)

    def begin(self) -> None: ...

    def close(self) -> None: ...

    def delivered(self, step: int) -> None: ...


class _NoSteps:
    """A StepConsumer for which none come: the delivery is told to end. logs: that it finds, one after the other, and the last
    one ever after."""

    ends: Any = None
    logs: tuple[str, ...] = ("new",)
    asked, begun = 0, 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> _NoSteps:
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def log_id(self) -> str:
        type(self).asked += 1
        return self.logs[min(self.asked, len(self.logs)) - 1]

    def streamed(self) -> Iterator[Any]:
        type(self).begun += 1
        type(self).ends()
        return iter(())


def _run(monkeypatch: pytest.MonkeyPatch, watch: _Watch, read: tuple[str, ...] = ("new",)) -> Progress:
    """read: the logs that consumers find when they begin."""
    progress = Progress()
    settings = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    delivery = Delivery(
        settings, "p", "out", cast(Target, _Target()), OPTIONS, progress, cast(LogWatch, watch)
    )

    class Consumer(_NoSteps):
        ends = staticmethod(delivery.stop)
        logs = read

    monkeypatch.setattr(delivering, "StepConsumer", Consumer)
    try:
        delivery.run()
    finally:
        # Of another log than the one that was judged nothing is read.
        assert Consumer.begun == (
            1 if Consumer.asked and read[min(Consumer.asked, len(read)) - 1] == "new" else 0
        )
    return progress


@pytest.mark.parametrize(
    "shown", [LogFacts("p", "old", 1, 9), LogFacts("p", "new", 1, 4), LogFacts("p", "old", 1, 3)]
)
def test_what_a_broker_shows_that_is_behind_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, shown: LogFacts
) -> None:
    watch = _Watch(shown, shown, shown, LogFacts("p", "new", 1, 9))
    assert _run(monkeypatch, watch).facts.state is DeliveryState.STOPPED
    assert watch.looks == 4


def test_another_log_halts_it_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeliveryHaltedError, match="was deleted and made anew"):
        _run(monkeypatch, _Watch(LogFacts("p", "other", 1, 9)))


def test_another_pipeline_and_steps_that_are_gone_halt_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for shown in (LogFacts("another", "new", 1, 9), LogFacts("p", "new", 7, 9)):
        watch = _Watch(shown)
        with pytest.raises(DeliveryHaltedError):
            _run(monkeypatch, watch)
        assert watch.looks == 2


@pytest.mark.parametrize("resets", [(VoidSteps(5, 8),), (VoidSteps(5, 6), VoidSteps(6, 8))])
def test_of_void_steps_that_are_gone_none_is_missing(monkeypatch: pytest.MonkeyPatch, resets: Resets) -> None:
    """After step 5 comes 9, and keep_steps has dropped 5 and 6."""
    for first in (7, 8, 9):
        watch = _Watch(LogFacts("p", "new", first, 12), resets=resets)
        assert _run(monkeypatch, watch).facts.state is DeliveryState.STOPPED


def test_a_step_that_is_not_void_is_missing_and_it_says_where_can_be_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = _Watch(LogFacts("p", "new", 8, 12), resets=(VoidSteps(6, 9),))
    with pytest.raises(
        DeliveryHaltedError, match=r"needs step 6 .* the oldest in the log is 10 .* --start 10 "
    ):
        _run(monkeypatch, watch)


def test_a_log_that_was_made_anew_after_it_was_judged_is_judged_again_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = LogFacts("p", "new", 1, 9)
    watch = _Watch(told, told, LogFacts("p", "other", 1, 9))
    with pytest.raises(DeliveryHaltedError, match="was deleted and made anew"):
        _run(monkeypatch, watch, ("other",))


def test_a_consumer_whose_broker_is_behind_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = _Watch(LogFacts("p", "new", 1, 9))
    assert _run(monkeypatch, watch, ("old", "new")).facts.state is DeliveryState.STOPPED
