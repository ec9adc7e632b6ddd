"""Coordinators on one machine learn at once that one of them has died, and take it out of the group."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcontrol.apps.coordinator_presence import CoordinatorPresence, locks_of
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

SHOW = """
import sys, time
from pathlib import Path
from kcontrol.apps.coordinator_presence import CoordinatorPresence

presence = CoordinatorPresence(Path(sys.argv[1]))
presence.show()
print(presence.client_id, flush=True)
sys.stdin.read()
presence.hide()
"""


@contextmanager
def another(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A coordinator's process, and its client id."""
    command = [sys.executable, "-c", SHOW, str(directory)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def presence(tmp_path: Path) -> Iterator[CoordinatorPresence]:
    made = CoordinatorPresence(tmp_path)
    made.show()
    yield made
    made.hide()


class Group:
    """Of coordinators: who is taken out of it, and how often it does not answer first."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.removed: list[str] = []
        self.asked = asyncio.Event()

    async def remove(self, client_ids: Collection[str]) -> list[str]:
        if self.failures:
            self.failures -= 1
            raise RetriableError("it does not answer")
        self.removed += client_ids
        self.asked.set()
        return list(client_ids)


async def removed(presence: CoordinatorPresence, group: Group) -> list[str]:
    async with presence.watching(group.remove):
        await asyncio.wait_for(group.asked.wait(), HANG_S)
    return group.removed


@pytest.mark.parametrize("failures", [0, 2])
def test_who_was_killed_is_taken_out(tmp_path: Path, presence: CoordinatorPresence, failures: int) -> None:
    with another(tmp_path) as (process, client_id):
        assert presence.dead() == []
        process.kill()
        process.wait(HANG_S)
        assert asyncio.run(removed(presence, Group(failures))) == [client_id]
    assert [each.name for each in tmp_path.iterdir()] == [presence.client_id]


def test_who_ends_by_itself_leaves_nothing_behind(tmp_path: Path, presence: CoordinatorPresence) -> None:
    with another(tmp_path) as (process, _):
        process.communicate()
        assert presence.dead() == []
    assert [each.name for each in tmp_path.iterdir()] == [presence.client_id]


def test_each_process_has_a_name_of_its_own_and_nobody_takes_himself_for_dead(
    tmp_path: Path, presence: CoordinatorPresence
) -> None:
    other = CoordinatorPresence(tmp_path)
    other.show()
    assert other.client_id != presence.client_id
    assert presence.dead() == other.dead() == []
    other.hide()


def test_who_is_started_again_under_its_instance_takes_the_place_of_the_one_before(
    tmp_path: Path, presence: CoordinatorPresence
) -> None:
    before, after = CoordinatorPresence(tmp_path, "pod/0"), CoordinatorPresence(tmp_path, "pod/0")
    assert before.client_id == after.client_id == "kcontrol-coordinator-pod%2F0"
    before.show()
    after.show()
    before.hide()
    assert presence.dead() == []
    assert (tmp_path / after.client_id).exists(), (
        "it is not taken for dead because another ended under its name"
    )
    after.hide()
    assert [each.name for each in tmp_path.iterdir()] == [presence.client_id]


def test_the_lock_of_who_came_back_meanwhile_stays(tmp_path: Path, presence: CoordinatorPresence) -> None:
    late = CoordinatorPresence(tmp_path, "pod")
    (tmp_path / late.client_id).touch()
    assert presence.dead() == [late.client_id]

    class Slow(Group):
        async def remove(self, client_ids: Collection[str]) -> list[str]:
            late.show()
            return await super().remove(client_ids)

    assert asyncio.run(removed(presence, Slow())) == [late.client_id]
    assert (tmp_path / late.client_id).exists()
    late.hide()


def test_a_disk_that_can_not_be_written_keeps_nobody_from_working(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    made = CoordinatorPresence(file / "locks")
    made.show()
    assert made.dead() == []
    made.hide()


def test_another_cluster_or_prefix_has_other_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = [
        locks_of(ClusterSettings(bootstrap_servers=servers, prefix=prefix))
        for servers, prefix in (("a:1,b:1", "k"), ("b:1, a:1", "k"), ("c:1", "k"), ("a:1,b:1", "n"))
    ]
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert all(tmp_path in each.parents for each in found)
