"""A child of `kcontrol run` that dies again and again is given up, after as many lives as it may have."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kcontrol.apps.supervisor.children import Child, ChildError, Children


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
