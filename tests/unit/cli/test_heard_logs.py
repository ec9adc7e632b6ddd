"""For how long whoever waits for a node's number has heard nobody who has it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kcontrol.apps.heard_logs import HeardLogs
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import Logged
from kcontrol.errors import RetriableError
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import SPEC


class Logs:
    """Those of one pipeline. Nothing more is read but what is said with `submit`."""

    def __init__(self) -> None:
        self.found = PipelineProjection("p")
        self.away = False

    @property
    def view(self) -> PipelineView:
        return self.found.view

    def submit(self) -> None:
        self.found.see_control([Logged(0, 0, SPEC)])

    async def is_there(self) -> bool:
        if self.away:
            raise RetriableError("Kafka is away")
        return self.view.spec() is not None

    async def read_steps_on(self) -> list[Any]:
        return []


class Listener:
    """Reads once a second, by a clock of its own."""

    def __init__(self) -> None:
        self.logs, self.now_s = Logs(), 0.0
        self._heard = HeardLogs(cast(PipelineLogs, self.logs), lambda: self.now_s)

    def listens(self, seconds: int) -> int:
        for _ in range(seconds):
            self.now_s += 1
            asyncio.run(self._heard.read())
        return self._heard.heard_ms


def test_the_time_before_there_was_a_definition_does_not_count() -> None:
    """Or whoever is ready to stand by before the first has submitted it would take the number from that one at once."""
    listener = Listener()
    assert listener.listens(60) == 0
    listener.logs.submit()
    assert listener.listens(1) == 0
    assert listener.listens(7) == 7_000


def test_the_time_while_kafka_was_away_does_not_count() -> None:
    listener = Listener()
    listener.logs.submit()
    assert listener.listens(8) == 7_000
    listener.logs.away = True
    with pytest.raises(RetriableError):
        listener.listens(1)
    listener.logs.away = False
    assert listener.listens(3) == 2_000


def test_the_time_in_which_the_listener_stood_still_himself_does_not_count() -> None:
    """As with a laptop that sleeps: whoever holds the number slept, too, and says so in a moment."""
    listener = Listener()
    listener.logs.submit()
    assert listener.listens(8) == 7_000
    listener.now_s += 30
    assert listener.listens(1) == 0
    assert listener.listens(3) == 3_000
