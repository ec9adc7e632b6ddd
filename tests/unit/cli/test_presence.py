"""Whether a node's process has certainly ended, as another process of its machine can know it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kcontrol.apps.presence import Presence
from kcontrol.apps.process_name import new_join_id, process_name
from kcontrol.core.model import NodeJoin
from kcontrol.settings.locks import lock
from tests.support.processes import until

HOST = socket.gethostname()
SHOW = """
import asyncio, sys
from pathlib import Path
from kcontrol.apps.presence import Presence
from kcontrol.apps.process_name import new_join_id

async def main():
    async with Presence(Path(sys.argv[1]), "p", 0).shown():
        print(new_join_id(), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@dataclass(frozen=True)
class Another:
    """A process that shows its presence. uuid: of its join."""

    process: subprocess.Popen[str]
    uuid: str

    def join(self, host: str = HOST, process_id: int | None = None) -> NodeJoin:
        return NodeJoin("p", 0, self.uuid, host, self.process.pid if process_id is None else process_id)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def another(work_dir: Path) -> Iterator[Another]:
    command = [sys.executable, "-c", SHOW, str(work_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Another(process, process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_process_that_was_killed_is_gone_and_one_that_lives_is_not(tmp_path: Path) -> None:
    presence = Presence(tmp_path, "p", 0)
    with another(tmp_path) as it:
        assert not presence.free
        assert not presence.gone(it.join())
        assert presence.beside(it.join())
        it.kill()
        assert presence.free
        assert presence.gone(it.join())
        assert not presence.beside(it.join())
        assert not presence.gone(it.join(host="another-host"))


def test_a_process_that_never_showed_itself_is_not_known_to_be_gone(tmp_path: Path) -> None:
    """As in a container that sees other process ids, or with another working directory."""
    presence = Presence(tmp_path, "p", 0)
    assert not presence.gone(NodeJoin("p", 0, "u", HOST, 4_000_000))
    with another(tmp_path) as it:
        it.kill()
        other = NodeJoin("p", 0, "another-1", HOST, it.process.pid)
        assert not presence.gone(other), "it was number 1, too, in a container of its own"
        assert not presence.gone(replace(it.join(), uuid="u" * 32)), "nor is one of an older version it"


def test_who_has_the_same_process_id_in_another_container_is_not_oneself(tmp_path: Path) -> None:
    """Two that stand by for each other would fence each other for ever."""
    of_its_own = NodeJoin("p", 0, "another-1", HOST, os.getpid())
    presence = Presence(tmp_path, "p", 0)
    assert not presence.gone(of_its_own), "it works in another directory"
    with lock(presence.path, process_name()):
        pass
    assert not presence.gone(of_its_own), "and this process was the node itself"
    with another(tmp_path) as it:
        assert not presence.gone(it.join(process_id=os.getpid())), "it lives, in the same directory"
        assert presence.beside(it.join(process_id=os.getpid()))


def test_ones_own_former_life_is_over(tmp_path: Path) -> None:
    """Also where the disk could not be written."""
    assert Presence(tmp_path, "p", 0).gone(NodeJoin("p", 0, new_join_id(), HOST, os.getpid()))


def test_a_node_of_an_older_version_is_known_by_its_process_id(tmp_path: Path) -> None:
    presence = Presence(tmp_path, "p", 0)
    join = NodeJoin("p", 0, "u" * 32, HOST, os.getpid())
    with lock(presence.path):
        assert (presence.gone(join), presence.beside(join)) == (False, True)
    assert (presence.gone(join), presence.beside(join)) == (True, False)


def test_the_lock_of_one_that_was_replaced_is_taken_once_it_ends(tmp_path: Path) -> None:
    async def run(it: Another) -> None:
        async with Presence(tmp_path, "p", 0).shown():
            it.kill()
            await asyncio.to_thread(
                until, lambda: not Presence(tmp_path, "p", 0).free, "the newer one has the lock"
            )
            assert not Presence(tmp_path, "p", 0).gone(it.join())

    with another(tmp_path) as it:
        asyncio.run(run(it))
