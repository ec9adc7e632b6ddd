"""What is done to a running cluster in one round, drawn from a seeded generator so that a
seed names the whole sequence."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.names import KEPT, STATELESS


class Target(StrEnum):
    """The kinds of process that there are; of several of a kind, some are taken at random: see
    `of_a_kind`."""

    COORDINATOR = "coordinator"
    NODE = "node"
    JVM = "jvm"
    WORKER = "worker"
    PLANNER = "planner"
    BROKER = "broker"


PLANNERS = STATELESS != "once" and KEPT in ("", "each")
"""Whether there are any, always: a query that is planned once has none."""
TARGETS = tuple(target for target in Target if PLANNERS or target is not Target.PLANNER)
"""Those that the pipeline has."""


class Action(StrEnum):
    """SIGKILL; or SIGSTOP, and SIGCONT after a while."""

    KILL = "kill"
    PAUSE = "pause"


MAX_DELAY_S = 2.0
"""A round begins so long after the last one at most: about two steps, so that every instant of a step is
met."""
MAX_OUTAGE_S = 10.0
"""Longer than the coordinators' session timeout and the nodes' heartbeat timeout, so that others do take
over."""
AT_ONCE_SHARE = 0.6
"""Of the kills, those after which the process is started again at once."""
ONE_SHARE = 0.6
"""Of the faults, those that hit one process of each kind that they hit; the others hit any number of them."""
WIPED_SHARE = 0.4
"""Of the kills of a node, those that take its disk too."""
FOLLOWED_SHARE = 0.6
"""Of the rounds, those whose fault is followed by the next before anything has recovered."""
MAX_FOLLOWING_DELAY_S = 20.0
"""After such a round the next begins so long after it at most: most of a recovery, so
that every instant of one is met."""


@dataclass(frozen=True)
class Fault:
    """One round. delay_s: how long to wait first; outage_s: how long what was hit stays dead or paused.

    wiped: a node that is killed loses its directory too. followed: the next round does not wait for recovery.
    """

    action: Action
    targets: tuple[Target, ...]
    delay_s: float
    outage_s: float
    wiped: bool = False
    followed: bool = False

    @property
    def everything(self) -> bool:
        """Every process of every kind."""
        return len(self.targets) == len(TARGETS)

    @property
    def name(self) -> str:
        """For people, and to group rounds by."""
        what = "everything" if self.everything else " + ".join(self.targets)
        return f"{self.action} {what}{', disk wiped' if self.wiped else ''}"


def draw(generator: random.Random, *, follows: bool = False) -> Fault:
    """The next fault: mostly of one process, sometimes of a few at once or of all.
    follows: one that was `followed`."""
    action = generator.choice(list(Action))
    count = generator.choices([1, 2, 3, len(TARGETS)], weights=[70, 15, 5, 10])[0]
    targets = tuple(sorted(generator.sample(TARGETS, count)))
    delay_s = generator.uniform(0.0, MAX_FOLLOWING_DELAY_S if follows else MAX_DELAY_S)
    outage_s = generator.uniform(0.2, MAX_OUTAGE_S)
    if action is Action.KILL and generator.random() < AT_ONCE_SHARE:
        outage_s = 0.0
    wiped = action is Action.KILL and Target.NODE in targets and generator.random() < WIPED_SHARE
    followed = generator.random() < FOLLOWED_SHARE
    return Fault(action, targets, delay_s, outage_s, wiped, followed)


def of_a_kind(living: int, generator: random.Random) -> list[int]:
    """Which of so many living processes of one kind are hit: one, or any subset. living: at least 1."""
    count = 1 if generator.random() < ONE_SHARE else generator.randint(1, living)
    return sorted(generator.sample(range(living), count))
