"""Which log a stream goes on in: that of which its client has steps, and no other of the name."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol.apps import followed_output
from kcontrol.apps.followed_output import FollowedOutput
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings


class _Consumers:
    """Those that are made; each finds the next one of these logs, and the last one ever after."""

    def __init__(self, *logs: str) -> None:
        self.logs, self.made, self.closed = list(logs), 0, 0

    def __call__(self, *_: Any, **__: Any) -> _Consumers:
        self.made += 1
        return self

    @property
    def log_id(self) -> str:
        return self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]

    def close(self) -> None:
        self.closed += 1


def _follow(monkeypatch: pytest.MonkeyPatch, consumers: _Consumers, log_id: str) -> FollowedOutput:
    monkeypatch.setattr(followed_output, "StepConsumer", consumers)
    monkeypatch.setattr(followed_output, "SETTLE_S", 0.05)
    monkeypatch.setattr(followed_output, "LOOK_AGAIN_S", 0.01)
    return FollowedOutput(ClusterSettings(bootstrap_servers="127.0.0.1:1"), "p", "out", 42, log_id)


def test_steps_of_another_log_are_not_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = _Consumers("new")
    output = _follow(monkeypatch, consumers, "old")
    with pytest.raises(NotNowError, match="its log of steps is new, and step 42 was asked for of log old"):
        output.begin()
    output.close()
    assert consumers.made == consumers.closed > 1


def test_a_broker_that_shows_the_log_of_before_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = _Consumers("old", "old", "new")
    output = _follow(monkeypatch, consumers, "new")
    assert output.begin() == "new"
    output.close()
    assert (consumers.made, consumers.closed) == (3, 3)


def test_whoever_does_not_say_of_which_log_it_has_steps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _follow(monkeypatch, _Consumers("any"), "").begin() == "any"
