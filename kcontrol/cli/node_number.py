"""The number of a process that stands by under an agent, which it has from there."""

from __future__ import annotations

from pathlib import Path

from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.errors import ConfigurationError


def given_to(number_from: Path | None, *, standby: bool, serves: bool) -> GivenNumber | None:
    """The number that this process has by now."""
    if number_from is None:
        return None
    if not standby or serves:
        raise ConfigurationError(
            "--number-from is for agents, with --standby and without --metrics-port: leave it out, and say --node"
        )
    return given_number(number_from)
