"""What `kcontrol upgrade` refuses before anything is asked for, and the processes that it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kcontrol.apps.new_processes import Starter
from kcontrol.cli.main import run_command
from kcontrol.errors import ConfigurationError, KcontrolError
from tests.support.processes import until

_WHERE = ("--bootstrap-servers", "127.0.0.1:1")


def test_it_has_to_be_told_which_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["upgrade", "flights", *_WHERE]) == ConfigurationError.exit_code
    assert "say --way: in-place or replace" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "why"), [("'", "is no command line"), (" ", "needs a command")])
def test_a_command_that_is_none_is_refused_before_anything_is_asked_for(
    capsys: pytest.CaptureFixture[str], command: str, why: str
) -> None:
    asked = ["upgrade", "flights", "--way", "replace", "--start", command, *_WHERE]
    assert run_command(asked) == ConfigurationError.exit_code
    assert why in capsys.readouterr().err


def test_the_number_goes_into_the_command_and_what_it_waits_for_behind_it(tmp_path: Path) -> None:
    arguments = Starter("ssh host-{node} 'kcontrol node' a.py", tmp_path).arguments(3)
    assert arguments == ["ssh", "host-3", "kcontrol node", "a.py", "--node", "3", "--instead"]


def test_a_process_that_fails_is_told_with_its_last_words_and_one_that_ends_well_is_not(
    tmp_path: Path,
) -> None:
    failing = Starter(f"{sys.executable} -c 'raise SystemExit(\"kcontrol: no such file\")'", tmp_path).start(
        1
    )
    well = Starter(f"{sys.executable} -c pass", tmp_path).start(2)
    until(lambda: failing.ended, "it ends")
    with pytest.raises(KcontrolError, match="exit code 1: no such file"):
        failing.check()
    until(lambda: well.ended, "it ends")
    well.check()


def test_what_can_not_be_started_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be started"):
        Starter("no-such-program-anywhere", tmp_path).start(0)
