"""A child of `kcontrol run` that dies again and again is given up, after as many lives as it may have."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from kcontrol.apps.supervisor.children import Child, ChildError, Children
from tests.support.processes import until


def _arguments(process_id: int) -> list[str]:
    """Of a process that has just been started; the system may show none for a moment, between its new memory
    and what is written to it."""
    process = psutil.Process(process_id)
    until(lambda: bool(process.cmdline()), f"the arguments of process {process_id} are there", 30)
    return process.cmdline()


def test_a_child_that_dies_at_once_is_given_up_after_so_many_short_lives(tmp_path: Path) -> None:
    told: list[str] = []

    def tell(name: str, what: str, process_id: int, code: int | None) -> None:
        told.append(what)
        if what == "started":
            os.kill(process_id, signal.SIGKILL)

    async def run() -> None:
        children = Children(tell, max_short_lives=2)
        children.add(
            Child("at-once", ["coordinator", "--bootstrap-servers", "127.0.0.1:1"], tmp_path / "at-once.log")
        )
        try:
            await children.watch()
        finally:
            await children.stop()

    with pytest.raises(ChildError, match=r"at-once: its log .* says why"):
        asyncio.run(asyncio.wait_for(run(), 120))
    assert told == ["started", "ended"] * 2


def test_what_is_added_from_the_second_life_on(tmp_path: Path) -> None:
    """As by `kcontrol run --standby`: who dies comes back to stand by."""
    lives: list[list[str]] = []

    def tell(name: str, what: str, process_id: int, code: int | None) -> None:
        if what == "started":
            lives.append(_arguments(process_id))
            os.kill(process_id, signal.SIGKILL)

    async def run() -> None:
        children = Children(tell, max_short_lives=2)
        children.add(Child("one", ["coordinator"], tmp_path / "one.log", again=["--json"]))
        try:
            await children.watch()
        finally:
            await children.stop()

    with pytest.raises(ChildError):
        asyncio.run(asyncio.wait_for(run(), 120))
    assert ["--json" in line for line in lives] == [False, True]
