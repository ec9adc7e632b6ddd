"""What is made ready beside: in its order, whatever becomes of one of it, and without anybody waiting for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kcontrol.adapters.spark.session import beside
from tests.support.patience import HANG_S


def test_one_that_fails_keeps_nobody_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    may_go_on = threading.Event()

    def reflection(gateway: Any) -> None:
        assert may_go_on.wait(HANG_S)
        used.append(f"reflection of {gateway}")

    def parser(_gateway: Any) -> None:
        raise OSError("the JVM has ended")

    monkeypatch.setattr(beside, "first_reflection", reflection)
    monkeypatch.setattr(beside, "first_parser", parser)
    monkeypatch.setattr(beside, "first_compiler", lambda gateway: used.append(f"compiler of {gateway}"))
    thread = beside.beside_session("it")
    assert used == [], "whoever begins it goes on"
    may_go_on.set()
    thread.join(HANG_S)
    assert used == ["reflection of it", "compiler of it"]
    assert thread.daemon, "the process may end before it has"
