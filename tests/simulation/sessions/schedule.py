"""One schedule of the sessions: seconds of virtual time in which things go wrong, and then a
world that must make progress.

As in the simulation of the cores, each schedule has a random choice of the faults, and a seed is a schedule.
What differs from schedule to schedule is also how much of asyncio's order is kept, how long messages take,
and how many are lost.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from kcontrol.core.model import DesiredMode, PipelinePhase
from kcontrol.core.node.table import UNWRITTEN
from tests.simulation.invariants import PROGRESS, STAGES_END, Violation, require
from tests.simulation.sessions.exchange_faults import EXCHANGE_FAULTS
from tests.simulation.sessions.faults import FAULTS, Fault
from tests.simulation.sessions.fleet import SessionsFleet
from tests.simulation.sessions.loop import SeededLoop
from tests.simulation.sessions.network import Weather
from tests.simulation.sessions.processes import witnessed
from tests.simulation.specs import CHECKPOINTS, simulated_spec
from tests.simulation.told_faults import told_of_any_step

_CHAOS_S = (5.0, 10.0, 10.0, 20.0, 40.0)
"""How long things go wrong: one of these."""
_EVERY_S = (0.02, 0.05, 0.1, 0.3)
"""How often something is done to the fleet, on average."""
_PROGRESS_S = 240.0
_ROUND_S = 0.25
_LATE_HALTS = 8
_ZOMBIES_END_S = 60.0
_AGENT_STAYS_DEAF = 0.25
"""How likely the rest must go well although Faust pushes nothing: a session reads for itself."""


class SessionsSchedule:
    """A fleet, and a generator that decides what happens to it. likely: faults that are chosen in any
    case."""

    def __init__(
        self,
        seed: int,
        counts: Counter[str],
        likely: tuple[Fault, ...] = (),
        epochs: bool = False,
        stages: int = 1,
        wide: bool = False,
    ) -> None:
        self.random = random = Random(seed)
        draw = random.random
        self.counts = counts
        nodes, impatient, stateful = 1 + int(draw() * 3), draw() < 0.15, draw() < 0.6
        checkpoints, clock_ms = int(draw() * len(CHECKPOINTS)), 500 if stateful and draw() < 0.1 else 0
        patient = not clock_ms and draw() < 0.2
        if wide:
            nodes, stateful, checkpoints = 2 + int(draw() * 2), True, max(1, checkpoints)
        spec = simulated_spec(nodes, clock_ms, impatient, checkpoints, stateful, patient, stages)
        self.loop = SeededLoop(random, draw() if draw() < 0.7 else 0.0)
        weather = Weather(
            usual_ms=(0.5, 2.0, 10.0)[int(draw() * 3)],
            slow_rate=0.2 * draw() ** 2,
            slowest_ms=(50.0, 500.0, 4_000.0)[int(draw() * 3)],
            lost_rate=0.1 * draw() ** 3,
        )
        self.faults = [fault for fault in FAULTS if draw() < 0.35] or list(FAULTS)
        if stages > 1:
            self.faults += [fault for fault in EXCHANGE_FAULTS if draw() < 0.5] or EXCHANGE_FAULTS
        self.faults += likely
        self.fault_rate = 0.5 * draw() ** 2
        self.every_s = _EVERY_S[int(draw() * len(_EVERY_S))]
        self.input_rate = 0.5 * draw()
        self.fleet = SessionsFleet(spec, random, self.loop, weather, counts)
        self.world = self.fleet.world
        self.world.tells_epochs = epochs
        self._began_ms = self.world.now_ms

    def run(self, to_progress: bool) -> None:
        """A part with faults, then, if wanted, one without until there is progress. Raises Violation."""
        draw = self.random.random
        end = _CHAOS_S[int(draw() * len(_CHAOS_S))]
        try:
            while self.loop.time() < end:
                self._until(self.loop.time() + self.every_s * 2 * draw())
                self._something_happens()
            if to_progress:
                self._settle()
        finally:
            self._end()

    def _until(self, time: float) -> None:
        """Run the loop; the world's time is the loop's."""
        self.loop.run_while(self._keep_time, time)

    def _keep_time(self) -> bool:
        self.world.now_ms = self._began_ms + round(self.loop.time() * 1000)
        return True

    def _something_happens(self) -> None:
        draw, fleet = self.random.random, self.fleet
        self._keep_time()
        if draw() < self.fault_rate:
            fault = self.faults[int(draw() * len(self.faults))]
            if fault(fleet):
                self.counts[fault.__name__.replace("_", " ")] += 1
        elif draw() < self.input_rate:
            fleet.input_arrives()
        if draw() < 0.1:
            self._brokers_hear()
        if draw() < 0.3:
            fleet.look_after_nodes()
        fleet.network.notify()

    def _brokers_hear(self) -> None:
        world, draw = self.world, self.random.random
        for replicas, end in (
            (world.control_replicas, len(world.control)),
            (world.steps_replicas, len(world.steps)),
        ):
            if not replicas.is_calm:
                replicas.followers_fetch(end)
                for broker in replicas.deposed():
                    if draw() < 0.5:
                        replicas.hears(broker)

    # --- and then all is well -------------------------------------------------------------------------------

    def _settle(self) -> None:
        """No more faults: all input that there is must be committed, by all nodes, within a bounded time."""
        fleet, world = self.fleet, self.world
        fleet.network.weather = Weather()
        fleet.network.traps.clear()
        world.control_replicas.settle()
        world.steps_replicas.settle()
        for old in fleet.coordinators[:-1]:
            fleet.kill(old)
        for process in fleet.alive():
            process.paused_until = 0.0
            for line in process.lines.values():
                line.deaf_until = 0.0
        if self.random.random() < _AGENT_STAYS_DEAF:
            fleet.coordinators[-1].line("agent").deaf_until = float("inf")
        for node in fleet.nodes:
            if node is not None and node.engine is not None:
                node.engine.hangs_until, node.engine.pause_ms, node.engine.inner.trouble = 0.0, 1.0, None
        fleet.want(DesiredMode.RUNNING)
        stays_paused = int(self.random.random() * 4)
        for index in range(len(world.spec.inputs)):
            fleet.pause_input(index, index == stays_paused)
        fleet.input_arrives()
        fleet.network.notify()
        self._until_done()
        self._zombies_end()

    def _until_done(self) -> None:
        fleet, world = self.fleet, self.world
        end, halts = self.loop.time() + _PROGRESS_S, 0
        while self.loop.time() < end:
            self._until(self.loop.time() + _ROUND_S)
            status = world.view.status()
            halted = status is not None and status.phase is PipelinePhase.HALTED
            if (
                halted
                and status is not None
                and fleet.must_stay_halted()
                and "the pipeline was made with" in status.reason
            ):
                self.counts["halted for good by partitions of keyed inputs"] += 1
                return
            if halted and halts < _LATE_HALTS:
                halts += 1
                fleet.resume()
            # A request that was on its way when all became well may have moved them after all.
            self._brokers_hear()
            fleet.look_after_nodes()
            fleet.make_ready()
            fleet.network.notify()
            if fleet.all_done() and not fleet.must_stay_halted():
                return
        between = any(node is not None and node.state and node.state.at in UNWRITTEN for node in fleet.nodes)
        raise Violation(STAGES_END if between and world.spec.exchanges else PROGRESS, fleet.describe())

    def _zombies_end(self) -> None:
        """One that was so late that it replaced its successor does, too, when that is started again."""
        fleet, end = self.fleet, self.loop.time() + _ZOMBIES_END_S
        while fleet.zombies and self.loop.time() < end:
            self._until(self.loop.time() + _ROUND_S)
            fleet.look_after_nodes()
            fleet.network.notify()
        for zombie in fleet.zombies:
            require(zombie.is_over, "a replaced node ends itself", zombie.name)

    def _end(self) -> None:
        """End every task in good order, in a world where nothing is done any more: also those of the
        killed."""
        network = self.fleet.network
        network.is_over = True
        for process in (*self.fleet.dead, *self.fleet.alive()):
            process.is_dead, process.paused_until = False, 0.0
        network.notify()
        self.loop.end()


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage is collected, for that would end forgotten coroutines at any moment; nothing is logged."""
    logger, collects = logging.getLogger("kcontrol"), gc.isenabled()
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    gc.disable()
    try:
        yield
    finally:
        logger.setLevel(level)
        if collects:
            gc.enable()


def run_sessions(
    seed: int,
    counts: Counter[str],
    to_progress: bool = True,
    likely: tuple[Fault, ...] = (),
    epochs: bool = False,
    stages: int = 1,
    wide: bool = False,
) -> SessionsSchedule:
    """One schedule. likely: faults that are chosen in any case. epochs: commits tell the epoch of the next
    transaction. stages: of a step. wide: of several nodes, with state and checkpoints. Raises Violation."""
    with undisturbed(), witnessed():
        schedule = SessionsSchedule(seed, counts, likely, epochs, stages, wide)
        with told_of_any_step():
            schedule.run(to_progress)
    return schedule
