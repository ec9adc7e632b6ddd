"""Spark may begin before it is known whether it is needed: once, without anybody waiting for it, and it can be ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kcontrol.apps import spark_start
from kcontrol.apps.spark_start import SparkStart
from kcontrol.errors import SparkSettingError
from tests.support.patience import HANG_S


class Sessions:
    """In the place of Spark: what was asked for. A session is there once `may_be` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.ended = self.forks = 0
        self.begun, self.may_be = threading.Event(), threading.Event()
        self._error = error

    def session(self, name: str, master: str | None, *, hushed: bool, launched: Callable[[Any], Any]) -> Any:
        assert hushed
        assert launched is spark_start.beside_session
        self.asked.append((name, master))
        self.begun.set()
        assert self.may_be.wait(HANG_S)
        if self._error is not None:
            raise self._error
        return f"session {len(self.asked)}"

    def end(self) -> None:
        assert self.may_be.is_set(), "it was ended before it was there"
        self.ended += 1

    def fork(self, _master: str | None) -> None:
        self.forks += 1


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    found = Sessions()
    use(found, monkeypatch)
    return found


def given(start: SparkStart) -> Any:
    return asyncio.run(start.session())


def use(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_start, "session", sessions.session)
    monkeypatch.setattr(spark_start, "end_spark", sessions.end)
    monkeypatch.setattr(spark_start, "begin_forking", sessions.fork)


def test_it_begins_at_once_and_is_the_one_that_is_given(sessions: Sessions) -> None:
    start = SparkStart("p", "local[2]")
    start.begin()
    assert sessions.begun.wait(HANG_S)
    start.prepare()
    assert sessions.forks == 0  # It has its own way to begin with that.
    sessions.may_be.set()
    assert given(start) == "session 1"
    assert sessions.asked == [("p", "local[2]")]


def test_without_that_it_begins_when_it_is_wanted(sessions: Sessions) -> None:
    start = SparkStart("p", None)
    start.prepare()
    assert (sessions.forks, sessions.asked) == (1, [])
    sessions.may_be.set()
    assert given(start) == "session 1"


def test_what_is_wrong_is_said_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(SparkSettingError("a wrong setting"))
    use(sessions, monkeypatch)
    sessions.may_be.set()
    start = SparkStart("p", None)
    start.begin()
    with pytest.raises(SparkSettingError, match="a wrong setting"):
        asyncio.run(start.session())
    start.end()
    assert sessions.ended == 1


def test_what_is_not_wanted_is_ended_once_it_is_there(sessions: Sessions) -> None:
    start = SparkStart("p", None)
    start.begin()
    assert sessions.begun.wait(HANG_S)
    threading.Timer(0.05, sessions.may_be.set).start()
    start.end()
    assert sessions.ended == 1
