"""Rounds of one fault each against one running cluster, with the oracle between them and at the end.

Most rounds are followed by the next before anything has recovered, so that faults meet starts, restores and
replays too. Any other is over when a step is committed that was begun after everything had come back, which
proves that the pipeline goes on; and every check proves that what it did is right.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from examples.processes import now_ms
from examples.step_feed import records_in, records_out
from tests.chaos import oracle, reading
from tests.chaos.broker_faults import BrokerFault, draw_broker_fault
from tests.chaos.brokers import ThreeBrokers
from tests.chaos.cluster import Cluster
from tests.chaos.committing import Committing
from tests.chaos.faults import MAX_DELAY_S, Action, Fault, Target, draw
from tests.chaos.names import EXCHANGE, OUTPUT_TOPICS, PIPELINE, PREFIXES
from tests.chaos.network import can_cut
from tests.chaos.producer import Feeder
from tests.chaos.relayout import NotDoneError, Relayout
from tests.chaos.stages import Moment, StageFeed

START_TIMEOUT_S = 300.0
ROUND_TIMEOUT_S = 300.0
STILL_TIMEOUT_S = 300.0
"""At the end: without a new step. How long all that is left takes depends on how much there is."""
LOOK_EVERY_S = 0.1
MOMENT_TIMEOUT_S = 5.0
"""For a step to be where a fault shall hit it: it may be that none goes on."""
AIMED_SHARE = 0.7
"""Of the faults where rows are exchanged, those that wait for such a moment."""
BROKERS_SHARE = 0.75
"""Of the rounds with three brokers, those that hit brokers."""
LAYOUT_SHARE = 0.35
"""Of the rounds where layouts are changed, those that change it."""


class ChaosError(Exception):
    """The pipeline did not go on, or did something wrong."""


@dataclass(frozen=True)
class Round:
    """What was done and how it went. hit: processes.

    recovered_ms: from the end of the outage to the first commit of a step begun after it; None: the next
    round did not wait. Of a fault of one of three brokers it counts from the hit, for the others can go on
    without it.
    """

    number: int
    fault: str
    hit: int
    outage_ms: float
    recovered_ms: float | None
    step: int
    revived: tuple[str, ...]
    moment: str = ""
    """Of a step, just before the hit; '': any."""


@dataclass
class Outcome:
    """A whole run. hidden_records: of aborted attempts, in the outputs but visible to nobody."""

    seed: int
    rounds: list[Round] = field(default_factory=list)
    checks: int = 0
    steps: int = 0
    records_in: int = 0
    records_out: int = 0
    hidden_records: int = 0
    bursts: dict[str, int] = field(default_factory=dict)
    ended_by_themselves: dict[str, int] = field(default_factory=dict)


class Chaos:
    """One run over one cluster. tell: hears of every round. standby: see Cluster. layouts: the number of nodes is changed
    again and again."""

    def __init__(
        self,
        home: Path,
        seed: int,
        coordinators: int,
        brokers: int,
        tell: Callable[[Round], None],
        *,
        standby: bool = False,
        layouts: bool = False,
    ) -> None:
        self._faults = random.Random(f"faults-{seed}")
        # Apart from the faults: which processes there are to choose from is not the seed's to say.
        self._victims = random.Random(f"victims-{seed}")
        self._tell = tell
        self._outcome = Outcome(seed)
        self._cluster = Cluster(home, coordinators, brokers, standby=standby)
        servers = self._servers = self._cluster.bootstrap_servers
        self._pipelines = [Committing(name, servers, prefix) for name, prefix in PREFIXES.items()]
        self._feed = self._pipelines[0].feed
        """Of the pipeline whose steps are told of in rounds."""
        self._feeder = Feeder(servers, seed)
        self._stages = StageFeed(PIPELINE, servers) if EXCHANGE else None
        self._layouts = random.Random(f"layouts-{seed}")
        self._relayout = Relayout(self._cluster, self._layouts, self._goes_on) if layouts else None

    def run(self, rounds: int, check_every: int) -> Outcome:
        """Raises ChaosError with what processes said last when pipeline or brokers stand still, or the oracle
        objects."""
        try:
            self._cluster.start()
            self._feeder.start()
            self._await_step(lambda: self._have_begun_one(0), START_TIMEOUT_S, "the first step")
            follows = False
            for number in range(1, rounds + 1):
                follows = self._next_round(number, follows)
                if number % check_every == 0:
                    self._check(complete=False)
            self._feeder.stop()
            self._drain()
            self._check(complete=True)
            return self._summary()
        except (ChaosError, NotDoneError, TimeoutError) as error:
            said = "\n".join(process.log_tail() for process in self._cluster.processes)
            raise ChaosError(f"seed {self._outcome.seed}: {error}\n{said}") from None
        finally:
            self._feeder.stop()
            for pipeline in self._pipelines:
                pipeline.close()
            if self._stages is not None:
                self._stages.close()
            self._cluster.stop()

    def _next_round(self, number: int, follows: bool) -> bool:
        """Whether the one after it does not wait for recovery."""
        if self._relayout is not None and self._layouts.random() < LAYOUT_SHARE:
            self._layout_round(number, self._relayout)
            return False
        brokers = self._cluster.brokers
        if isinstance(brokers, ThreeBrokers) and self._faults.random() < BROKERS_SHARE:
            self._broker_round(number, draw_broker_fault(self._faults, cuts=can_cut()), brokers)
            return False
        fault = draw(self._faults, follows=follows)
        self._round(number, fault)
        return fault.followed

    def _layout_round(self, number: int, relayout: Relayout) -> None:
        """Always waited for, and so is the end of whoever is left of the layout before."""
        begun_ms = now_ms()
        relayout.change()
        over_ms, revived = now_ms(), self._cluster.revive()
        self._goes_on(revived)
        found = self._feed.last["nodes"]
        if found != relayout.nodes:
            raise ChaosError(f"a step of {found} nodes after {relayout.told}")
        self._note(
            Round(
                *(number, relayout.told, 0, over_ms - begun_ms, self._recovered_ms(over_ms, over_ms)),
                *(self._feed.committed, tuple(revived)),
            )
        )
        relayout.await_old_ones()

    def _goes_on(self, revived: list[str] | None = None) -> None:
        """Until a step is committed that was begun after this was called."""
        since_ms = now_ms()
        self._await_step(
            lambda: self._have_begun_one(since_ms),
            ROUND_TIMEOUT_S,
            "a step after a change of the layout",
            revived,
        )

    def _have_begun_one(self, since_ms: float) -> bool:
        """Whether each pipeline has committed a step that was begun after that."""
        return all(pipeline.has_begun_one(since_ms) for pipeline in self._pipelines)

    def _broker_round(self, number: int, fault: BrokerFault, brokers: ThreeBrokers) -> None:
        """Always waited for: what is asked is how long steps stand still because of it,
        while brokers are away and after."""
        # Not to await something: the fault's instant is random.
        time.sleep(self._victims.uniform(0.0, MAX_DELAY_S))
        moment = self._await_moment()
        hit_ms = now_ms()
        hit = brokers.strike(fault, self._victims, lambda: self._kill_some(fault))
        over_ms = now_ms()
        revived = self._cluster.revive()
        self._await_step(
            lambda: self._have_begun_one(over_ms),
            ROUND_TIMEOUT_S,
            f"a step after round {number}, {fault.name} for {fault.outage_s:.1f} s",
            revived,
        )
        stood_ms = self._recovered_ms(hit_ms, hit_ms)
        outage_ms, step = over_ms - hit_ms, self._feed.committed
        self._note(Round(number, fault.name, hit, outage_ms, stood_ms, step, tuple(revived), moment))

    def _await_moment(self) -> str:
        """Where rows are exchanged: until a step is at a moment that is drawn. It; '' if none is, or does not come."""
        if self._stages is None or self._faults.random() >= AIMED_SHARE:
            return ""
        moment = self._faults.choice(list(Moment))
        return moment if self._stages.wait_for_next(moment, MOMENT_TIMEOUT_S) else ""

    def _kill_some(self, fault: BrokerFault) -> None:
        if fault.others_killed:
            targets = tuple(
                self._victims.sample([Target.COORDINATOR, Target.NODE], self._victims.randint(1, 2))
            )
            victims = self._cluster.pick(Fault(Action.KILL, targets, 0.0, 0.0), self._victims)
            self._cluster.hit(victims, Action.KILL)

    def _note(self, done: Round) -> None:
        self._outcome.rounds.append(done)
        self._tell(done)

    def _round(self, number: int, fault: Fault) -> None:
        time.sleep(fault.delay_s)  # Not to await something: the fault's instant is random.
        victims = self._await_victims(fault)
        moment = self._await_moment()
        hit_ms = now_ms()
        self._cluster.hit(victims, fault.action)
        if fault.wiped:
            self._cluster.wipe(victims)
        time.sleep(fault.outage_s)
        self._cluster.release(victims)
        revived = self._cluster.revive()
        over_ms = now_ms()
        if not fault.followed:
            self._await_step(
                lambda: self._have_begun_one(over_ms),
                ROUND_TIMEOUT_S,
                f"a step after round {number}, {fault.name} for {fault.outage_s:.1f} s",
                revived,
            )
        self._note(
            Round(
                number,
                fault.name,
                len(victims),
                over_ms - hit_ms,
                None if fault.followed else self._recovered_ms(hit_ms, over_ms),
                self._feed.committed,
                tuple(revived),
                moment,
            )
        )

    def _await_victims(self, fault: Fault) -> list[psutil.Process]:
        """Some that the fault can hit: while things start, there may be none of a kind yet."""
        deadline = time.monotonic() + ROUND_TIMEOUT_S
        while not (victims := self._cluster.pick(fault, self._victims)):
            time.sleep(LOOK_EVERY_S)  # Nothing tells when Spark starts a process.
            self._cluster.revive()
            if time.monotonic() > deadline:
                raise ChaosError(f"there was nothing to {fault.name} within {ROUND_TIMEOUT_S:.0f} s")
        return victims

    def _recovered_ms(self, hit_ms: float, over_ms: float) -> float:
        """Until the last of the pipelines had: see `Committing`."""
        return max(pipeline.recovered_ms(hit_ms, over_ms) for pipeline in self._pipelines)

    def _await_step(
        self, reached: Callable[[], bool], timeout_s: float, what: str, revived: list[str] | None = None
    ) -> None:
        """Wait for it, and start again whatever ends meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not any(
            each.feed.wait_for(lambda _: reached(), LOOK_EVERY_S, LOOK_EVERY_S) for each in self._pipelines
        ):
            again = self._cluster.revive()
            if revived is not None:
                revived += again
            if time.monotonic() > deadline:
                committed = ", ".join(str(each.feed.committed) for each in self._pipelines)
                raise ChaosError(f"{what} did not come within {timeout_s:.0f} s; committed: step {committed}")

    def _drain(self) -> None:
        """Until all committed input is in steps of each pipeline, and what it has closed has come out. A transaction that the
        feeder left holds input back until it times out."""
        ends = reading.ends_of(reading.read_inputs(self._servers))
        for pipeline in self._pipelines:
            step = pipeline.feed.committed
            while not pipeline.has_read(ends):
                self._await_more(pipeline, step)
                step = pipeline.feed.committed

    def _await_more(self, pipeline: Committing, step: int) -> None:
        self._await_step(
            lambda: pipeline.feed.committed > step,
            STILL_TIMEOUT_S,
            f"a step of {pipeline.name} after {step}, with input left",
        )

    def _check(self, *, complete: bool) -> None:
        """Steps first, then the topics: what is committed meanwhile is newer than all the steps that are
        looked at.

        Of brokers, all have to be in sync before: a new leader may show an end that is behind what it has.
        """
        looked_at = [pipeline.steps() for pipeline in self._pipelines]
        self._cluster.brokers.await_whole()
        inputs = reading.read_inputs(self._servers)
        outputs = [pipeline.outputs() for pipeline in self._pipelines]
        violations = [
            f"{pipeline.name}: {violation}"
            for pipeline, steps, found in zip(self._pipelines, looked_at, outputs, strict=True)
            for violation in oracle.check(steps, inputs, found, complete=complete)
        ]
        if complete:
            violations += [
                str(each) for found in outputs[1:] for each in oracle.differences(outputs[0], found)
            ]
        self._outcome.checks += 1
        if violations:
            shown = "\n".join(violations[:20])
            raise ChaosError(
                f"{len(violations)} violations after {len(self._outcome.rounds)} rounds, step "
                f"{len(looked_at[0])}:\n{shown}"
            )

    def _summary(self) -> Outcome:
        still_open = reading.open_transactions(self._servers, OUTPUT_TOPICS)
        if still_open:
            raise ChaosError(f"transactions are still open: {'; '.join(still_open)}")
        steps, outcome = [step for each in self._pipelines for step in each.feed.steps], self._outcome
        outcome.steps, outcome.records_in, outcome.records_out = (
            len(steps),
            records_in(steps),
            records_out(steps),
        )
        outcome.hidden_records = reading.count_hidden(self._servers, OUTPUT_TOPICS)
        outcome.bursts = dict(self._feeder.done)
        outcome.ended_by_themselves = dict(self._cluster.ended)
        return outcome
