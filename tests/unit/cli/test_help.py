"""What each command says of itself. In one process: to start Python for each would take a minute."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from kcontrol.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"], prog_name="kcontrol", catch_exceptions=False)
    assert result.exit_code == 0
    assert re.search(rf"Examples?:  .*\bkcontrol {name}\b", result.output)
