"""What is done to a host in one round, drawn from a seeded generator so that a seed names the whole sequence."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What becomes of the agent and of all that runs on its host."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT = "cut off"


MAX_DELAY_S = 5.0
SHORT_S, LONG_S = 4.0, 30.0
"""An outage is shorter than what makes an agent silent, or long enough for its nodes to be at work elsewhere."""
LONG_SHARE = 0.7
WIPED_SHARE = 0.3
"""Of the kills, those after which the host comes back with an empty disk."""
BUSY_SHARE = 0.8
"""Of the faults, those that hit a host on which a node is placed."""


@dataclass(frozen=True)
class Fault:
    """One round. delay_s: how long to wait first; outage_s: until the host is back. busy: it hits a host with a node."""

    action: Action
    delay_s: float
    outage_s: float
    busy: bool
    wiped: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.action}{', disk wiped' if self.wiped else ''}"


def draw(generator: random.Random, *, cuts: bool) -> Fault:
    """The next one. cuts: hosts can be cut off here."""
    action = generator.choice(list(Action) if cuts else [Action.KILL, Action.FREEZE])
    delay_s = generator.uniform(0.0, MAX_DELAY_S)
    most_s = LONG_S if generator.random() < LONG_SHARE else SHORT_S
    outage_s = generator.uniform(most_s / 2, most_s)
    busy, wiped = generator.random() < BUSY_SHARE, generator.random() < WIPED_SHARE
    return Fault(action, delay_s, outage_s, busy, wiped and action is Action.KILL)
