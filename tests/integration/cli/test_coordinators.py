"""Two real coordinators on one machine: whoever is killed is replaced at once, long before Kafka misses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.admin.groups import Membership, remove_members
from kcontrol.apps.agent.burials import Burials
from kcontrol.apps.coordinator_presence import client_id_of
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.cli.conftest import Command, define, own_cluster
from tests.support.held_coordinator import ALONE
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until

PATIENCE_S = HANG_S
ASSIGNED = "assigned partitions of the control topic: "
TOLD = "held: it is told its partitions"
SESSION_TIMEOUT_S = 300.0
"""The longest that there may be: Kafka alone would hand over when every test here has long failed."""
STAYS = ("--settle", f"{SESSION_TIMEOUT_S:g}")
"""Who comes second takes nothing from the first meanwhile, however slow the machine is."""


@pytest.fixture
def cluster(settings: ClusterSettings, unique: str, tmp_path: Path) -> ClusterSettings:
    """With a group of its own, and a pipeline `p` that waits for a node."""
    own = own_cluster(settings, f"c{unique}", tmp_path)
    define(own)
    return own


@contextmanager
def coordinator(
    cluster: ClusterSettings, home: Path, name: str, *more: str, host: str = "home"
) -> Iterator[KcontrolProcess]:
    """Ready. host: who is on another one does not see its lock."""
    log = home / f"{name}.log"
    arguments = ["--bootstrap-servers", cluster.bootstrap_servers]
    timeout = ["--session-timeout", f"{SESSION_TIMEOUT_S:g}"]
    env = {"XDG_DATA_HOME": str(home / host)}
    with KcontrolProcess("coordinator", *arguments, *timeout, *more, log=log, env=env, cwd=home) as process:
        process.says("the coordinator is ready", PATIENCE_S)
        yield process


def looking_often(cluster: ClusterSettings, home: Path, alone: Path, *more: str) -> KcontrolProcess:
    """A coordinator that looks often whether it is in its group, and does not see itself while the file `alone` is there."""
    return KcontrolProcess(
        ALONE,
        str(alone),
        *more,
        log=home / "looking-often.log",
        env={"XDG_DATA_HOME": str(home / "home"), "KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
        cwd=home,
        module="tests.support.held_coordinator",
    )


def in_charge(command: Command) -> int:
    """The process id of the coordinator whose claim is the newest; 0 as long as there is none."""
    told = json.loads(command("status", "p", "--json").stdout)["coordinator"]
    return int(told.rpartition(":")[2]) if told else 0


def share_of(process: KcontrolProcess) -> str:
    """The partitions that it was assigned last, as it says them."""
    return process.text().rpartition(ASSIGNED)[2].splitlines()[0]


def bury(cluster: ClusterSettings, gone: str) -> list[str]:
    """As an agent does that has read that this one is gone. Who was taken out of the group."""
    removed: list[str] = []

    async def remove(client_ids: Collection[str]) -> list[str]:
        removed.extend(await remove_members(cluster, client_ids))
        return removed

    burials = Burials(remove)
    burials.add([gone])
    asyncio.run(burials.bury([], may_act=True))
    return removed


@pytest.mark.parametrize("static", [False, True])
def test_a_coordinator_that_is_killed_is_replaced_at_once(
    cluster: ClusterSettings, command: Command, tmp_path: Path, static: bool
) -> None:
    names = [["--instance", f"{cluster.prefix}-{one}"] if static else [] for one in "ab"]
    with (
        coordinator(cluster, tmp_path, "a", *names[0], *STAYS) as first,
        coordinator(cluster, tmp_path, "b", *names[1], *STAYS) as second,
    ):
        processes = {one.pid: one for one in (first, second)}
        until(lambda: in_charge(command) in processes, "one of them is in charge", PATIENCE_S, first.text)
        victim = processes.pop(in_charge(command))
        (other,) = processes.values()
        victim.kill()
        until(lambda: in_charge(command) == other.pid, "the other takes over", PATIENCE_S, other.text)
        assert "has died; its pipelines are shared out anew" in other.text()
        victim.start()
        until(lambda: victim.text().count("the coordinator is ready") == 2, "it is back", PATIENCE_S)
        assert share_of(victim) == "none", "what has just been taken over stays where it is"
        assert in_charge(command) == other.pid


@contextmanager
def on_two_hosts(
    cluster: ClusterSettings, tmp_path: Path
) -> Iterator[tuple[KcontrolProcess, KcontrolProcess]]:
    """Coordinators `a` and `b`, each on the host of that name."""
    with (
        coordinator(cluster, tmp_path, "a", "--instance", "a", *STAYS, host="a") as first,
        coordinator(cluster, tmp_path, "b", "--instance", "b", *STAYS, host="b") as second,
    ):
        yield first, second


def test_a_coordinator_whose_host_is_gone_is_replaced_once_an_agent_knows_that(
    cluster: ClusterSettings, command: Command, tmp_path: Path
) -> None:
    """On another host nobody sees its lock."""
    with on_two_hosts(cluster, tmp_path) as (first, second):
        hosts = {first.pid: "a", second.pid: "b"}
        until(lambda: in_charge(command) in hosts, "one of them is in charge", PATIENCE_S, first.text)
        victim, other = (first, second) if in_charge(command) == first.pid else (second, first)
        agent = hosts[victim.pid]
        victim.kill()
        assert bury(cluster, agent) == [client_id_of(agent)]
        until(lambda: in_charge(command) == other.pid, "the other takes over", PATIENCE_S, other.text)
        assert "has died" not in other.text(), "it has not seen that itself"


def test_a_coordinator_that_lives_though_its_host_was_given_up_joins_again(
    cluster: ClusterSettings, command: Command, tmp_path: Path
) -> None:
    """Its agent was slow, or has died alone: who has the pipeline by then, the claims say."""
    with on_two_hosts(cluster, tmp_path) as (first, second):
        hosts = {first.pid: (first, "a"), second.pid: (second, "b")}
        until(lambda: in_charge(command) in hosts, "one of them is in charge", PATIENCE_S, first.text)
        one, agent = hosts[in_charge(command)]
        told = one.text().count(ASSIGNED)
        assert bury(cluster, agent) == [client_id_of(agent)]
        until(lambda: one.text().count(ASSIGNED) > told, "it has joined again", PATIENCE_S, one.text)

        def is_settled() -> bool:
            having = [each.pid for each in (first, second) if share_of(each) != "none"]
            return having == [in_charge(command)]

        until(is_settled, "whoever has the share is in charge", PATIENCE_S, one.text)


def test_a_coordinator_that_hung_while_it_was_put_out_leaves_what_another_has_taken_over(
    cluster: ClusterSettings, command: Command, tmp_path: Path
) -> None:
    """It wakes up, and believes that it has still what it had."""
    with on_two_hosts(cluster, tmp_path) as (first, second):
        until(lambda: in_charge(command) == first.pid, "the first is in charge", PATIENCE_S, first.text)
        told = first.text().count(ASSIGNED)
        first.pause()
        assert bury(cluster, "a") == [client_id_of("a")]
        until(lambda: in_charge(command) == second.pid, "the other takes over", PATIENCE_S, second.text)
        first.resume()
        until(lambda: first.text().count(ASSIGNED) > told, "it has joined again", PATIENCE_S, first.text)
        assert share_of(first) == "none", "what has been taken over stays where it is"
        until(lambda: in_charge(command) == second.pid, "the other is in charge", PATIENCE_S, second.text)


def test_a_coordinator_has_its_share_once_it_has_been_there_for_a_while(
    cluster: ClusterSettings, tmp_path: Path
) -> None:
    with (
        coordinator(cluster, tmp_path, "a", *STAYS) as first,
        coordinator(cluster, tmp_path, "b", *STAYS) as second,
        coordinator(cluster, tmp_path, "c", "--settle", "2") as third,
    ):
        until(lambda: share_of(third) != "none", "it has a share", PATIENCE_S, third.text)
        assert share_of(first) != "none"
        assert share_of(second) == "none"


def test_a_coordinator_that_its_group_has_lost_joins_anew(cluster: ClusterSettings, tmp_path: Path) -> None:
    """Whatever Faust believes: it may have stopped to look after its membership without a word."""
    alone = tmp_path / "alone"
    with looking_often(cluster, tmp_path, alone) as process:
        process.says("held: it is in the group", PATIENCE_S)
        alone.touch()
        process.says("the Faust worker crashed; starting again", PATIENCE_S)
        alone.unlink()
        until(
            lambda: process.text().count(TOLD) > 1,
            "the next worker is in the group",
            PATIENCE_S,
            process.text,
        )
        assert "has not been in the group of coordinators" in process.text()
        assert process.terminate() == 0


def test_a_coordinator_that_is_started_again_under_its_instance_is_in_its_group(
    cluster: ClusterSettings, tmp_path: Path
) -> None:
    """A group shows a static member as it first was, whoever has taken its place."""
    instance = ("--instance", f"{cluster.prefix}-one")
    with coordinator(cluster, tmp_path, "first", *instance) as first:
        assert first.terminate() == 0
    with looking_often(cluster, tmp_path, tmp_path / "alone", *instance) as second:
        second.says("held: it is in the group", PATIENCE_S)
        assert second.terminate() == 0


def test_who_is_in_the_group_under_an_instance_is_known_by_what_kafka_calls_it(
    cluster: ClusterSettings, tmp_path: Path
) -> None:
    """Of an older version, whose client ids were others; and no other instance counts."""

    async def are_there(*instances: str) -> list[bool]:
        found = []
        for instance in instances:
            membership = Membership(cluster, "another-client", instance)
            found.append(await membership.is_there())
            await membership.close()
        return found

    name = f"{cluster.prefix}-one"
    with coordinator(cluster, tmp_path, "first", "--instance", f"{name}-1"):
        assert asyncio.run(are_there(f"{name}-1", name, f"{name}-2")) == [True, False, False]
