"""Whether a node's process has certainly ended, as another process of its machine can know it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcontrol.apps.presence import Presence
from kcontrol.core.model import NodeJoin
from tests.support.processes import until

HOST = socket.gethostname()
SHOW = """
import asyncio, sys
from pathlib import Path
from kcontrol.apps.presence import Presence

async def main():
    async with Presence(Path(sys.argv[1]), "p", 0).shown():
        print("shown", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@contextmanager
def another(work_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that shows its presence."""
    command = [sys.executable, "-c", SHOW, str(work_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "shown\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_process_that_was_killed_is_gone_and_one_that_lives_is_not(tmp_path: Path) -> None:
    presence = Presence(tmp_path, "p", 0)
    with another(tmp_path) as process:
        join = NodeJoin("p", 0, "u", HOST, process.pid)
        assert not presence.free
        assert not presence.gone(join)
        process.kill()
        process.wait()
        assert presence.free
        assert presence.gone(join)
        assert not presence.gone(NodeJoin("p", 0, "u", "another-host", process.pid))


def test_a_process_that_never_showed_itself_is_not_known_to_be_gone(tmp_path: Path) -> None:
    """As in a container that sees other process ids, or with another working directory."""
    presence = Presence(tmp_path, "p", 0)
    assert not presence.gone(NodeJoin("p", 0, "u", HOST, 4_000_000))
    with another(tmp_path) as process:
        process.kill()
        process.wait()
        assert not presence.gone(NodeJoin("p", 0, "u", HOST, process.pid + 1))


def test_ones_own_former_life_is_over(tmp_path: Path) -> None:
    assert Presence(tmp_path, "p", 0).gone(NodeJoin("p", 0, "u", HOST, os.getpid()))


def test_the_lock_of_one_that_was_replaced_is_taken_once_it_ends(tmp_path: Path) -> None:
    async def run(process: subprocess.Popen[str]) -> None:
        async with Presence(tmp_path, "p", 0).shown():
            join = NodeJoin("p", 0, "u", HOST, process.pid)
            process.kill()
            process.wait()
            await asyncio.to_thread(
                until, lambda: not Presence(tmp_path, "p", 0).free, "the newer one has the lock"
            )
            assert not Presence(tmp_path, "p", 0).gone(join)

    with another(tmp_path) as process:
        asyncio.run(run(process))
