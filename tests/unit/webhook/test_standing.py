"""Where a delivery to a webhook stands, when brokers answer with what is old."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kcontrol.adapters.kafka.admin.group_offsets import KeptOffset
from kcontrol.adapters.kafka.admin.standing import GroupStanding
from kcontrol.adapters.webhook.address import WebhookAddress
from kcontrol.adapters.webhook.target import WebhookOptions, WebhookTarget
from kcontrol.core.step.following import Applied
from kcontrol.errors import TargetAwayError
from kcontrol.settings.cluster import ClusterSettings


def at(step: int) -> Applied:
    return Applied("p", "log", step, f"print of {step}")


class Standing:
    """A StepStanding. told: what the next answers say, the last one ever after. after: so many times `take` gives nothing."""

    def __init__(self, *told: Applied | None, after: int = 0) -> None:
        self.told, self.after, self.written = list(told), after, list[Applied]()

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self) -> Applied | None:
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]

    def take(self) -> bool:
        self.after -= 1
        return self.after < 0

    def beat(self) -> None: ...

    def write(self, applied: Applied) -> None:
        self.written.append(applied)


def _target(standing: Standing) -> WebhookTarget:
    options = WebhookOptions(WebhookAddress("http://127.0.0.1:1/x"), "json", has_start=True)
    return WebhookTarget(options, "p", "out", standing)


def test_that_nothing_is_known_is_believed_only_who_has_the_delivery() -> None:
    """With --start it would begin anew: everything would be sent again, or left out up to the newest step."""
    standing = Standing(None, at(5), after=2)
    target = _target(standing)
    assert target.applied() == at(5)
    assert target.take() == at(5)
    assert standing.written == []


def test_whoever_has_not_got_the_delivery_looks_again_instead_of_beginning_anew() -> None:
    with pytest.raises(TargetAwayError, match="another process has this one"):
        _target(Standing(None, after=1_000)).applied()


def test_what_is_not_kept_any_more_is_looked_at_again_and_then_begun() -> None:
    standing = Standing(at(5), None)
    target = _target(standing)
    assert target.applied() == at(5)
    with pytest.raises(TargetAwayError, match="not known any more"):
        target.take()
    assert target.applied() is None
    target.begin("log", 7)
    assert target.take() == Applied("p", "log", 7)
    assert standing.written == [Applied("p", "log", 7)]


class _Cluster:
    """Brokers. own: what the member's own coordinator has; told: what an older one, which others ask, has."""

    def __init__(self, own: Applied | None, told: Applied | None) -> None:
        self.own, self.told = own, told
        self._assigned: Callable[..., None] = lambda *_: None

    def consumer(self, _: dict[str, Any]) -> _Cluster:
        return self

    def subscribe(self, topics: list[str], on_assign: Callable[..., None], **_: Any) -> None:
        self._assigned, self._topic = on_assign, topics[0]

    def poll(self, _: float) -> None:
        self._assigned(self, [TopicPartition(self._topic, 0)])

    def incremental_assign(self, _: list[TopicPartition]) -> None: ...

    def pause(self, _: list[TopicPartition]) -> None: ...

    def committed(self, asked: list[TopicPartition], _: float) -> list[TopicPartition]:
        return [self._place(asked[0].topic, self.own)]

    def close(self) -> None: ...

    def read(self, _: str) -> KeptOffset | None:
        if self.told is None:
            return None
        return KeptOffset(self.told.step + 1, json.dumps(asdict(self.told)))

    def _place(self, topic: str, applied: Applied | None) -> TopicPartition:
        if applied is None:
            return TopicPartition(topic, 0, -1001)
        return TopicPartition(topic, 0, applied.step + 1, metadata=json.dumps(asdict(applied)))


@pytest.mark.parametrize("told", [None, at(4)])
def test_an_old_answer_is_not_gone_on_from(monkeypatch: pytest.MonkeyPatch, told: Applied | None) -> None:
    cluster = _Cluster(at(5), told)
    monkeypatch.setattr("confluent_kafka.Consumer", cluster.consumer)
    monkeypatch.setattr("kcontrol.adapters.kafka.admin.standing.GroupOffsets", lambda *_: cluster)
    standing = GroupStanding(ClusterSettings(bootstrap_servers="127.0.0.1:1"), "p", "out", "there", 6)
    standing.open()
    assert standing.read() == told, "whoever has nothing to decide may be shown what was"
    assert standing.take()
    with pytest.raises(TargetAwayError, match="is old"):
        standing.read()
    cluster.told = at(5)
    assert standing.read() == at(5)
    cluster.own = cluster.told = None
    assert standing.read() is None
