"""An agent that comes to a cut log, and has no snapshot from which it could go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.logs.cluster_log import LogCutError
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.entries import ClusterEntry, ConfirmSnapshot, Leave, Prepare, ProposeSnapshot
from kcontrol.core.cluster.model import Agent, Replica
from kcontrol.errors import ClusterError, RetriableError
from tests.unit.agent.session import Log, Part, Session


def cut() -> None:
    raise LogCutError(1001)


def cut_log() -> Log:
    log = Log()
    log.reading = cut
    return log


async def nothing() -> Replica | None:
    return None


async def away() -> Replica | None:
    raise RetriableError("no broker")


def test_who_can_read_no_snapshot_says_what_it_waits_for_and_what_is_to_be_done(tmp_path: Path) -> None:
    async def play() -> None:
        with Session(tmp_path, cut_log(), store=Part(newest=nothing)) as one:
            for _ in range(3):
                await one.session._read()
            [said] = one.told
            assert "waits: the cluster's log begins at offset 1001" in said
            assert "install the version of kcontrol that the cluster's other agents have. It ends" in said
            assert not one.machine.has_read, "so it ends and starts nothing"

    asyncio.run(play())


def test_and_ends_with_it_after_a_while(tmp_path: Path) -> None:
    async def play() -> None:
        options, ends = SessionOptions(poll_ms=1, give_up_ms=0), "ends: .* offset 1001, and there is no"
        with (
            Session(tmp_path, cut_log(), options, store=Part(newest=nothing)) as one,
            pytest.raises(ClusterError, match=ends),
        ):
            await one.session.run()

    asyncio.run(play())


def test_for_kafka_it_waits_as_long_as_it_takes(tmp_path: Path) -> None:
    async def play() -> None:
        options = SessionOptions(poll_ms=1, give_up_ms=0)
        with Session(tmp_path, cut_log(), options, store=Part(newest=away)) as one:
            for _ in range(3):
                await one.session._read()
            [said] = one.told
            assert "can't be read now: no broker; it tries again" in said

    asyncio.run(play())


def restored(folder: Path, log: Log, snapshot: Replica) -> Session:
    """An agent to which the log is cut until it has read the snapshot."""

    async def newest() -> Replica | None:
        log.reading = lambda: None
        return snapshot

    return Session(folder, log, store=Part(newest=newest))


@pytest.mark.parametrize("offset", [999, 1_000])
def test_a_snapshot_counts_if_the_log_goes_on_from_it(tmp_path: Path, offset: int) -> None:
    async def play() -> None:
        with restored(tmp_path, cut_log(), Replica(offset=offset)) as one:
            await one.session._read()
            assert ("goes on from the snapshot" in one.told[0]) == (offset == 1_000)

    asyncio.run(play())


def test_a_snapshot_counts_once_the_log_has_confirmed_it(tmp_path: Path) -> None:
    """Of a log that was deleted snapshots may be left, which no agent of the next one has confirmed."""
    log, mark = cut_log(), (1_000, "d")
    behind: list[ClusterEntry] = [ProposeSnapshot("a", "a-1", *mark), ConfirmSnapshot("a", "a-1", *mark)]
    snapshot = Replica(offset=1_000, agents={"a": Agent("a", "a-1", 0, 1)}, members=("a",))

    async def play() -> None:
        with restored(tmp_path, log, snapshot) as one:
            for _ in range(3):
                await one.session._read()
            assert "so that is of another log, which was deleted: end all agents" in one.told[-1]
            assert not one.machine.has_read, "so it ends and starts nothing"
            log.entries = [*([Prepare("b", "b-1")] * 1_001), *behind]
            await one.session._read()
            assert one.machine.has_read

    asyncio.run(play())


def taken() -> Log:
    """The log of a cluster in which another agent of that name lives."""
    return Log([Prepare("a", "b-1")])


def test_who_has_the_name_of_another_that_lives_says_so(tmp_path: Path) -> None:
    async def play() -> None:
        with Session(tmp_path, taken()) as one:
            for _ in range(3):
                await one.session._read()
            [said] = [told for told in one.told if told.startswith("waits")]
            assert "an agent 'a' with another --work-dir" in said
            assert "end that one, or give this one another --name. It ends if that is so for 300 s" in said

    asyncio.run(play())


def test_and_ends_if_that_one_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        options = SessionOptions(poll_ms=1, give_up_ms=0)
        with Session(tmp_path, taken(), options) as one, pytest.raises(ClusterError, match="another --name"):
            await one.session.run()

    asyncio.run(play())


def test_and_goes_on_once_that_one_has_left(tmp_path: Path) -> None:
    log = taken()

    async def play() -> None:
        options = SessionOptions(poll_ms=1, give_up_ms=3_600_000)
        with Session(tmp_path, log, options) as one:
            await one.session._read()
            log.entries.append(Leave("a", "b-1", "a", "b-1", "asked to"))
            await one.session._read()
            log.entries.append(Prepare("a", "b-2"))
            await one.session._read()
            assert len([told for told in one.told if told.startswith("waits")]) == 2, "said anew"

    asyncio.run(play())
