"""Which of its lives an agent remembers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcontrol.apps.agent import disk as disks
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.core.cluster.entries import Prepare
from tests.unit.agent.session import ME, Log, Session

KEPT = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "KEPT", KEPT)


def test_the_incarnation_that_the_cluster_knows_is_remembered_however_often_an_agent_is_started(
    tmp_path: Path,
) -> None:
    """A broker that is away for an hour has its process manager start it a thousand times."""
    disk = AgentDisk(tmp_path)
    first = disk.new_incarnation("a")
    disk.see(first)
    for _ in range(KEPT + 2):
        disk.close()
        disk = AgentDisk(tmp_path)
        newest = disk.new_incarnation("a")
        assert first in disk.incarnations
        assert disk.incarnations[-1] == newest
        assert len(disk.incarnations) <= KEPT
    disk.see(newest)
    for _ in range(KEPT):
        disk.new_incarnation("a")
    assert first not in disk.incarnations
    assert newest in disk.incarnations
    disk.close()


def test_it_is_the_one_that_an_agent_has_read_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "incarnations.json").write_text(f'["{ME.incarnation}"]', encoding="utf-8")
    with Session(tmp_path, Log([Prepare(*ME.who, slots=0)])) as one:
        asyncio.run(one.session._read())
        for _ in range(KEPT):
            one.disk.new_incarnation(ME.name)
        assert ME.incarnation in one.disk.incarnations
