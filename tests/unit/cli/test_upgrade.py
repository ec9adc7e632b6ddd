"""What `kcontrol upgrade` refuses before anything is asked for, and the processes that it starts."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import AsyncMock, patch

import pytest

from kcontrol.apps import upgrade
from kcontrol.apps.live_layout import withdrawal
from kcontrol.apps.new_processes import Starter, check_hosts, host_of
from kcontrol.cli.main import run_command
from kcontrol.core.cluster.model import ClusterJob, TaskSpec
from kcontrol.core.model import LayoutPhase, LayoutRequest, UpgradeWay
from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.views.upgrades import nodes_left, turns
from tests.support.processes import until

_WHERE = ("--bootstrap-servers", "127.0.0.1:1")


def test_it_has_to_be_told_which_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["upgrade", "flights", *_WHERE]) == ConfigurationError.exit_code
    assert "say --way: replace, in-place, out-in, in-out" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "why"), [("'", "is no command line"), (" ", "needs a command")])
def test_a_command_that_is_none_is_refused_before_anything_is_asked_for(
    capsys: pytest.CaptureFixture[str], command: str, why: str
) -> None:
    asked = ["upgrade", "flights", "--way", "replace", "--start", command, *_WHERE]
    assert run_command(asked) == ConfigurationError.exit_code
    assert why in capsys.readouterr().err


def test_the_number_goes_into_the_command_and_what_it_waits_for_behind_it(tmp_path: Path) -> None:
    arguments = Starter("ssh host-{node} 'kcontrol node' a.py", tmp_path).arguments(3, "--instead", "")
    assert arguments == ["ssh", "host-3", "kcontrol node", "a.py", "--node", "3", "--instead"]
    arguments = Starter("ssh {host} kcontrol node a.py", tmp_path).arguments(3, "--new", "b")
    assert arguments == ["ssh", "b", "kcontrol", "node", "a.py", "--node", "3", "--new"]


def test_a_process_goes_to_the_next_host_that_is_left_or_to_the_node_whose_place_it_takes(
    tmp_path: Path,
) -> None:
    way, hosts = UpgradeWay.OUT_IN, ("spare", "first")
    all_turns = list(turns(way, (0, 1), 2, 2))
    assert [host_of(turn, turn.node, way, hosts, "its own") for turn in all_turns] == [
        *("spare", "its own", "first", "its own")
    ]
    starter = Starter("ssh {host} kcontrol node a.py", tmp_path)
    check_hosts(starter, way, all_turns, hosts)
    check_hosts(starter, way, all_turns[2:], ("first",))
    check_hosts(Starter("kcontrol node a.py", tmp_path), way, all_turns, ())
    with pytest.raises(ConfigurationError, match="2 processes are to be started on another host each"):
        check_hosts(starter, way, all_turns, ("spare",))


def test_processes_that_come_together_go_to_the_hosts_in_their_order(tmp_path: Path) -> None:
    way, hosts = UpgradeWay.REPLACE, ("a", "b", "c")
    [turn] = turns(way, (0, 1, 2), 3, 3, together=True)
    assert [host_of(turn, node, way, hosts, "its own") for node in turn.comes] == ["a", "b", "c"]
    assert host_of(turn, 1, UpgradeWay.IN_PLACE, (), "its own") == "its own"
    starter = Starter("ssh {host} kcontrol node a.py", tmp_path)
    check_hosts(starter, way, [turn], hosts)
    with pytest.raises(ConfigurationError, match="3 processes are to be started on another host each"):
        check_hosts(starter, way, [turn], hosts[1:])


def test_nodes_that_are_added_and_removed_are_so_one_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["upgrade", "flights", "--way", "out-in", "--together", *_WHERE]
    assert run_command(asked) == ConfigurationError.exit_code
    assert "with out-in a node is added or removed at a time" in capsys.readouterr().err


def test_a_process_that_fails_is_told_with_its_last_words_and_one_that_ends_well_is_not(
    tmp_path: Path,
) -> None:
    failing = Starter(f"{sys.executable} -c 'raise SystemExit(\"kcontrol: no such file\")'", tmp_path).start(
        1, "--instead", ""
    )
    well = Starter(f"{sys.executable} -c pass", tmp_path).start(2, "--instead", "")
    until(lambda: failing.ended, "it ends")
    with pytest.raises(KcontrolError, match="exit code 1: no such file"):
        failing.check()
    until(lambda: well.ended, "it ends")
    well.check()


def test_what_can_not_be_started_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be started"):
        Starter("no-such-program-anywhere", tmp_path).start(0, "--instead", "")


def test_an_upgrade_whose_change_was_withdrawn_goes_on_with_that_node() -> None:
    """Nobody came to be it, say. Unless the number has a new process already, because that of before has died."""
    asked = LayoutRequest("p", "l1", 1, 3, 60_000, (1,), way="replace", left=(2,), whole=3)
    way, given_up = UpgradeWay.REPLACE, LayoutPhase.GIVEN_UP
    assert nodes_left(withdrawal(asked), given_up, way, (0, 1, 2)) == (1, 2)
    assert nodes_left(withdrawal(asked, done=1), given_up, way, (0, 1, 2)) == (2,)
    assert withdrawal(asked).nodes == 0
    both = LayoutRequest("p", "l1", 1, 3, 60_000, (1, 2), way="replace", whole=3)
    assert nodes_left(withdrawal(both, done=1), given_up, way, (0, 1, 2)) == (2,)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (("--way", "out-in"), "kcontrol submit or kcontrol place, by which all of them begin anew"),
        (("--way", "in-place"), "kcontrol submit or kcontrol place, by which all of them begin anew"),
        (("--withdraw",), "kcontrol layout flights --withdraw tells them"),
    ],
    ids=["out-in", "in-place", "withdraw"],
)
def test_what_agents_run_is_not_upgraded_beside_them(
    capsys: pytest.CaptureFixture[str], how: tuple[str, ...], what: str
) -> None:
    """It ends before it asks the broker, which is not there, for more."""
    job = ClusterJob("flights", 4, 4, 4, "q", "file:f.py", (TaskSpec("nodes", 2, 2),), kept=1, most=2)
    with (
        patch.object(upgrade, "is_at_work", AsyncMock(return_value=True)),
        patch.object(upgrade, "placed_job", AsyncMock(return_value=job)),
    ):
        assert run_command(["upgrade", "flights", *how, *_WHERE]) == ConfigurationError.exit_code
    told = capsys.readouterr().err
    assert "agents run pipeline 'flights'" in told
    assert what in told
