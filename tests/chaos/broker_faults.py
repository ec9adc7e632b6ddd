"""What is done to a cluster of three brokers in one round, drawn from the seeded generator.

Who is hit is said by what the broker does for the pipeline, for that decides what becomes of a step: it leads
the log of steps, an input, or what nodes send each other, coordinates the transaction or the coordinators'
group, or is the controller in charge.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.names import EXCHANGE


class Duty(StrEnum):
    """What the broker that is hit does at that moment."""

    STEPS_LEADER = "leader of steps"
    CONTROL_LEADER = "leader of control"
    INPUT_LEADER = "leader of an input"
    TRANSACTION_COORDINATOR = "transaction coordinator"
    GROUP_COORDINATOR = "group coordinator"
    CONTROLLER = "controller"
    EXCHANGE_LEADER = "leader of an exchange"


DUTIES = tuple(duty for duty in Duty if EXCHANGE or duty is not Duty.EXCHANGE_LEADER)
"""Those that there are."""


class Scenario(StrEnum):
    """What happens."""

    KILL = "kill"
    PAUSE = "pause"
    ROLLING_RESTART = "rolling restart"
    TWO_DOWN = "two of three down"
    ALL_DOWN = "all down"
    ELECTION = "preferred election"
    REASSIGNMENT = "reassignment"
    CUT_FROM_PEERS = "cut off from its peers"
    CUT_FROM_NODES = "cut off from the nodes"


CUTS = (Scenario.CUT_FROM_PEERS, Scenario.CUT_FROM_NODES)
_WEIGHTS = {
    Scenario.KILL: 22,
    Scenario.PAUSE: 26,
    Scenario.ROLLING_RESTART: 6,
    Scenario.TWO_DOWN: 8,
    Scenario.ALL_DOWN: 6,
    Scenario.ELECTION: 8,
    Scenario.REASSIGNMENT: 8,
    Scenario.CUT_FROM_PEERS: 10,
    Scenario.CUT_FROM_NODES: 6,
}
MIN_OUTAGE_S, MAX_OUTAGE_S = 2.0, 60.0
BOTH_SHARE = 0.25
"""Of the rounds of brokers, those in which coordinators or nodes are killed in the middle."""


@dataclass(frozen=True)
class BrokerFault:
    """duty: of the first broker that is hit. outage_s: how long brokers are dead, paused or cut off."""

    scenario: Scenario
    duty: Duty
    outage_s: float
    others_killed: bool

    @property
    def name(self) -> str:
        """For people, and to group rounds by."""
        if self.scenario in (
            Scenario.ROLLING_RESTART,
            Scenario.ALL_DOWN,
            Scenario.ELECTION,
            Scenario.REASSIGNMENT,
        ):
            what = str(self.scenario)
        else:
            what = f"{self.scenario}: {self.duty}"
        return f"brokers, {what}{', others killed' if self.others_killed else ''}"


def draw_broker_fault(generator: random.Random, *, cuts: bool) -> BrokerFault:
    """The next one; most outages are short, some as long as a minute. cuts: whether the network can be
    cut."""
    scenarios = [each for each in Scenario if cuts or each not in CUTS]
    scenario = generator.choices(scenarios, [_WEIGHTS[each] for each in scenarios])[0]
    duty = generator.choice(DUTIES)
    outage_s = MIN_OUTAGE_S + (MAX_OUTAGE_S - MIN_OUTAGE_S) * generator.random() ** 3
    return BrokerFault(scenario, duty, outage_s, generator.random() < BOTH_SHARE)
