"""The agent's unit for systemd: its command is kcontrol's, and a restart leaves alone what the agent has started."""

from __future__ import annotations

from configparser import ConfigParser

from kcontrol.cli.agent import agent
from tests.unit.docker.reading import DOCKER

UNIT = ConfigParser(interpolation=None, strict=True)
UNIT.optionxform = str  # type: ignore[assignment,method-assign]
UNIT.read_string((DOCKER / "systemd" / "kcontrol-agent.service").read_text())


def test_its_command_is_understood() -> None:
    program, name, *arguments = UNIT["Service"]["ExecStart"].split()
    assert program.endswith("/bin/kcontrol")
    assert name == agent.name
    known = {option for parameter in agent.params for option in parameter.opts}
    assert {one for one in arguments if one.startswith("--")} <= known
    assert "--files" in arguments


def test_what_it_has_started_outlives_it_and_it_is_started_again_for_ever() -> None:
    assert UNIT["Service"]["KillMode"] == "process"
    assert UNIT["Service"]["Restart"] == "always"
    assert UNIT["Unit"]["StartLimitIntervalSec"] == "0"
