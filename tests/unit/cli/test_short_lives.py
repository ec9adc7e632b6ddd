"""A child of `kcontrol run` that dies again and again is given up, after as many lives as it may have."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

import kcontrol.errors
from kcontrol.apps.supervisor import children as supervising
from kcontrol.apps.supervisor.children import Child, ChildError, Children
from kcontrol.cli.main import EXIT_CODES
from kcontrol.errors import KcontrolError, ReplacedError
from tests.support.patience import HANG_S
from tests.support.processes import until


@pytest.fixture(autouse=True)
def _every_life_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine takes from a start to the end of what was started."""
    monkeypatch.setattr(supervising, "SHORT_LIFE_S", 10 * HANG_S)


def _arguments(process_id: int) -> list[str]:
    """Of a process that has just been started; the system may show none for a moment, between its new memory
    and what is written to it."""
    process = psutil.Process(process_id)
    until(lambda: bool(process.cmdline()), f"the arguments of process {process_id} are there")
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
        asyncio.run(asyncio.wait_for(run(), HANG_S))
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
        asyncio.run(asyncio.wait_for(run(), HANG_S))
    assert ["--json" in line for line in lives] == [False, True]


@pytest.mark.parametrize(("again", "lives"), [((), 1), (["--standby"], 2)])
def test_one_that_is_to_stand_by_from_its_second_life_on_may_be_replaced_in_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: list[str], lives: int
) -> None:
    """Who stands by may take the number of a first one that was slow; that one is to come back, and nobody else to end."""
    replaced = tmp_path / "replaced"
    replaced.write_text(f"#!/bin/sh\nexit {ReplacedError.exit_code}\n")
    replaced.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(replaced))
    told: list[str] = []

    async def run() -> None:
        children = Children(lambda name, what, process_id, code: told.append(what))
        children.add(Child("node-0", ["node"], tmp_path / "node-0.log", again=again))
        try:
            await children.watch()
        finally:
            await children.stop()

    with pytest.raises(ChildError) as found:
        asyncio.run(asyncio.wait_for(run(), HANG_S))
    assert found.value.exit_code == ReplacedError.exit_code
    assert told == ["started", "ended"] * lives


def test_every_code_that_an_error_ends_a_command_with_is_in_its_help() -> None:
    errors = [one for one in vars(kcontrol.errors).values() if isinstance(one, type)]
    codes = {one.exit_code for one in errors if issubclass(one, KcontrolError)}
    assert codes - {int(code) for code in re.findall(r"^ +(\d+) ", EXIT_CODES, re.MULTILINE)} == set()
