"""An agent whose disk is full says so, keeps what runs, and writes what it has to remember once there is room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcontrol.apps.agent import remembering, serve
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.remembering import Remembering
from kcontrol.apps.agent.serve import AgentOptions
from kcontrol.core.cluster.entries import Leave, Prepare
from kcontrol.errors import KcontrolError, LeftOutError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.unit.agent.session import ME, Log, Session
from tests.unit.agent.test_endings import AGAIN, LOG, Ending, Life

NO_ROOM = "can't write down what it has to remember: [Errno 28] No space left on device"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "AGAIN_S", 0.0)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """There is no room for what is written in it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.new" for name in ("incarnations", "seen", "left-out-by-log")]
    for file in files:
        file.symlink_to("/dev/full")
    try:
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def test_an_agent_that_is_given_up_has_no_new_name_before_that_is_on_its_disk(tmp_path: Path) -> None:
    joined = [Prepare(*ME.who, slots=0)]
    (tmp_path / "incarnations.json").write_text(json.dumps([ME.incarnation]), encoding="utf-8")
    with Session(tmp_path, Log(joined)) as one:

        def read() -> None:
            asyncio.run(one.session._read())

        with full(tmp_path):
            read()
            one.log.entries.append(Leave(*ME.who, *ME.who, "asked to"))
            for _ in range(3):
                read()
            assert one.machine.removed
            assert one.machine.me.incarnation == ME.incarnation
            [said] = [what for what in one.told if "write" in what]
            assert said.startswith(NO_ROOM)
        read()
        assert not one.machine.removed
        newest = one.machine.me.incarnation
        assert newest != ME.incarnation
        assert json.loads((tmp_path / "incarnations.json").read_text()) == [ME.incarnation, newest]
        assert "can write down again what it has to remember" in one.told


def test_what_was_left_out_is_written_down_once_there_is_room(tmp_path: Path) -> None:
    """And what ran is not forgotten before: an agent that is started again meanwhile hears of its end as well."""
    command = Ending(LeftOutError.exit_code)
    first = Life(tmp_path, command)
    first.read()
    with full(tmp_path):
        until(lambda: first.sees(1), "it has ended", HANG_S)
        for _ in range(3):
            first.work()
        assert next(what for what in first.told if "write" in what).startswith(NO_ROOM)
        assert len(list(first.disk.units.iterdir())) == 1
        first.disk.close()
        meanwhile = Life(tmp_path, command, [*LOG, AGAIN])
        meanwhile.read()
        until(lambda: meanwhile.sees(1), "it has heard of it", HANG_S)
        assert meanwhile.says() is None
    meanwhile.work()
    assert len(meanwhile.disk.left_out()) == 1
    assert list(meanwhile.disk.units.iterdir()) == []
    assert command.started == 1, "nobody has started it again"
    meanwhile.disk.close()


def test_an_end_for_which_there_was_no_room_is_known_to_whoever_has_started_it(tmp_path: Path) -> None:
    command = Ending(LeftOutError.exit_code)
    life = Life(tmp_path, command)
    life.read()
    life.work()
    written = life.disk.units / "job-nodes-0-1" / "exit"
    until(written.exists, "it has ended", HANG_S)
    written.write_text("")
    until(lambda: life.sees(1), "that is seen", HANG_S)
    assert command.started == 1
    assert len(life.disk.left_out()) == 1
    life.disk.close()


def test_an_agent_that_starts_on_a_full_disk_waits_for_room_and_nobody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    begun: list[tuple[str, ...]] = []

    class Begun(KcontrolError):
        pass

    def begin(_cluster: ClusterSettings) -> None:
        begun.append(AgentDisk(tmp_path / "looks").incarnations)
        raise Begun

    monkeypatch.setattr(serve, "KafkaClusterLog", begin)
    options = AgentOptions("a", 1, (), tmp_path, 1_000, leaves=False)
    cluster = ClusterSettings(bootstrap_servers="nobody:1")

    async def play() -> None:
        waits = asyncio.Event()

        def tell(what: str) -> None:
            told.append(what)
            waits.set()

        with full(tmp_path):
            serving = asyncio.create_task(serve.serve(cluster, options, Ending(0), tell))
            async with asyncio.timeout(HANG_S):
                await waits.wait()
            assert not begun
            assert not serving.done()
        with pytest.raises(Begun):
            await serving

    asyncio.run(play())
    assert [one.startswith(NO_ROOM) for one in told] == [True]
    [incarnation] = json.loads((tmp_path / "incarnations.json").read_text())
    assert incarnation.startswith("a-")


def test_what_can_not_be_written_is_not_tried_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "AGAIN_S", 1.0)
    now_s, disk, told = [0.0], AgentDisk(tmp_path), list[str]()
    memory = Remembering(disk, told.append, lambda: now_s[0])
    with full(tmp_path):
        assert memory.new_incarnation("a") is None
    assert memory.new_incarnation("a") is None, "it is not time yet"
    now_s[0] = 1.0
    assert memory.new_incarnation("a") == disk.incarnations[-1]
    disk.close()
