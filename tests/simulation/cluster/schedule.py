"""One schedule: a part with faults, then a world without them that must come to rest in the right state.

Each schedule has some of the faults only, chosen by its seed (swarm testing, Groce et al. 2012). All that is
random comes from one generator, so a seed is a schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from random import Random

from kcontrol.core.cluster.entries import (
    ClusterEntry,
    Configure,
    ConfirmSnapshot,
    Leave,
    ProposeSnapshot,
    RaiseLevel,
)
from kcontrol.core.cluster.model import (
    ANOTHER_LIFE_LEVEL,
    AS_OF_LEVEL,
    BOUNDS_LEVEL,
    COORDINATOR_LEVEL,
    LEFT_ROOM_LEVEL,
    RESUMED_LEVEL,
    STANDBY,
    STANDBY_LEVEL,
    ClusterPolicy,
    Scheduler,
)
from tests.simulation.cluster.faults import (
    FAULTS,
    Fault,
    asker_frozen,
    coordinator_can_not_run,
    snapshot_lost,
)
from tests.simulation.cluster.hosts import Host, HostAgent, Process
from tests.simulation.cluster.invariants import (
    COMES_TO_REST,
    ENDED_RUNS_NOWHERE,
    NEWER_GO_ON,
    QUIET,
    STAYS_AT_REST,
)
from tests.simulation.cluster.layouts import change_layouts
from tests.simulation.cluster.rest import not_at_rest, run_after_their_end
from tests.simulation.cluster.users import JOBS, TAGS, User
from tests.simulation.cluster.world import FOR_EVER_MS, TICK_MS, ClusterWorld
from tests.simulation.draws import Draws
from tests.simulation.invariants import require

REST_LIMIT_TICKS = 900
REST_TICKS = 90
POLICY = ClusterPolicy(beat_ms=3 * TICK_MS, digest_every=10, snapshot_every=40, finished_jobs=2)
LASTING_CUTS = ("log read", "log write", "beats write")


def _drawn(what: str, asked: bool | None, chance: float = 0.3) -> bool:
    """As asked; else so by chance. what: names the draw, with the seed, so that it changes no other."""
    return Random(what).random() < chance if asked is None else asked


class ClusterSchedule:
    """likely: faults that this schedule has in any case. as_of: whether the level is reached at which operators say as of when
    they ask. up_to: the newest level, whatever else is said."""

    def __init__(
        self,
        seed: int,
        likely: Collection[Fault] = (),
        two_codes: bool | None = None,
        resizes: bool | None = None,
        ends: bool | None = None,
        as_of: bool | None = None,
        stands: bool | None = None,
        fits: bool | None = None,
        keeps: bool | None = None,
        tries: bool | None = None,
        refills: bool | None = None,
        up_to: int | None = None,
    ) -> None:
        self.ends = ends
        self.random = Draws(seed)
        self._rare = Random(seed)
        self._ending = Random(f"ending {seed}")
        """For what shall not change which schedule a seed is."""
        self.world = ClusterWorld()
        self.world.is_alive = self._is_alive
        self.hosts: list[Host] = []
        self.on_their_way: list[ClusterEntry] = []
        self.history: list[ClusterEntry] = []
        self.done: Counter[str] = Counter()
        self._agents = 0
        self.tagged = self.random.random() < 0.4
        drawn = self.random.random() < 0.3
        self.two_codes = drawn if two_codes is None else two_codes
        self.resizing = Random(f"resizing {seed}")
        drawn = self.resizing.random() < 0.3
        self.resizes = drawn if resizes is None else resizes
        newest = AS_OF_LEVEL if _drawn(f"as of {seed}", as_of, 0.5) else RESUMED_LEVEL
        self.standing = Random(f"standing by {seed}")
        drawn = self.standing.random() < 0.3
        self.stands = self.resizes and (drawn if stands is None else stands)
        """Whether jobs have standbys."""
        newest = STANDBY_LEVEL if self.stands else newest
        self.fitting = Random(f"fitting {seed}")
        drawn = self.fitting.random() < 0.3
        self.fits = self.resizes and (drawn if fits is None else fits)
        """Whether jobs follow the size of the cluster."""
        newest = BOUNDS_LEVEL if self.fits else newest
        self.keeping = Random(f"keeping {seed}")
        drawn = self.keeping.random() < 0.3
        self.keeps = self.resizes and (drawn if keeps is None else keeps)
        """Whether there are hosts where no coordinator can run."""
        newest = COORDINATOR_LEVEL if self.keeps else newest
        self.tries = self.resizes and _drawn(f"trying again {seed}", tries)
        """Whether what could not run somewhere is tried there again in another life of the agent."""
        newest = ANOTHER_LIFE_LEVEL if self.tries else newest
        self.refills = self.stands and _drawn(f"left room {seed}", refills)
        """Whether what standbys leave is for those that have found no room."""
        newest = LEFT_ROOM_LEVEL if self.refills else newest
        self.newest_level = (up_to or newest) if self.resizes else 2
        self._faults = [one for one in FAULTS if self.random.random() < 0.35] + 3 * list(likely)
        self._rate = 0.25 * self.random.random()
        self.user = User(self)
        self._begin()

    def _begin(self) -> None:
        scheduler = self.random.choice(tuple(Scheduler))
        self.say(Configure(replace(POLICY, scheduler=scheduler)))
        if self.resizes and not self.two_codes:
            for level in range(2, self.newest_level + 1):
                self.say(RaiseLevel(level))
        for _ in range(self.random.randint(1, 7)):
            self.add_host()

    # --- what there is ------------------------------------------------------------------------------------

    def add_host(self) -> Host:
        random = self.random
        tags = tuple(tag for tag in TAGS if random.random() < 0.4) if self.tagged else ()
        level = random.choice((1, 2)) if self.two_codes else 1
        if self.resizes and (level == 2 or not self.two_codes):
            level = self.newest_level
        host = Host(f"h{len(self.hosts)}", random.randint(1, 3), tags, level)
        self.hosts.append(host)
        self.start_agent(host)
        return host

    def start_agent(self, host: Host) -> None:
        self._agents += 1
        host.gone = False
        host.agent = HostAgent(self.world, host, f"{host.name}#{self._agents}", self.random)

    def _is_alive(self, name: str, incarnation: str) -> bool:
        return any(
            host.agent is not None and (host.name, host.agent.incarnation) == (name, incarnation)
            for host in self.hosts
        )

    def any_host(self) -> Host:
        return self.random.choice(self.hosts)

    def any_job(self) -> str:
        return self.random.choice(JOBS)

    def trouble(self, host: Host, until_ms: int = 0) -> None:
        """Something is wrong with this host, which explains its death for a while."""
        now = max(self.world.now_ms, until_ms)
        self.world.trouble_ms[host.name] = max(now, self.world.trouble_ms.get(host.name, 0))

    def say(self, entry: ClusterEntry) -> None:
        if self.world.log_up:
            self.world.append(entry)
            self.history.append(entry)

    # --- what happens -------------------------------------------------------------------------------------

    def go_on(self, ticks: int) -> None:
        """For so long nothing new goes wrong."""
        for _ in range(ticks):
            self.tick(False)

    def tick(self, faults: bool) -> None:
        world, random = self.world, self.random
        world.now_ms += TICK_MS
        if faults:
            self._disturb()
        self.on_their_way += world.late
        world.late.clear()
        if self.on_their_way and world.log_up and random.random() < 0.1:
            at = random.randrange(len(self.on_their_way))
            world.append(self.on_their_way.pop(at), late=True)
        order = random.shuffled(self.hosts.copy())
        if self.resizes and world.layouts:
            change_layouts(self)
        for host in order:
            if host.frozen_until_ms <= world.now_ms:
                self._let_run(host, faults)

    def _disturb(self) -> None:
        if self.keeps and self.keeping.random() < 0.003:
            self.done[coordinator_can_not_run.__name__] += coordinator_can_not_run(self)
        if self._faults and self.random.random() < self._rate:
            fault = self.random.choice(self._faults)
            if fault(self):
                self.done[fault.__name__] += 1
        if self._rare.random() < 0.02 and snapshot_lost(self):
            self.done[snapshot_lost.__name__] += 1
        if self.random.random() < 0.08:
            self.user.wishes()
        if self.resizes and self.resizing.random() < 0.12:
            self.user.resizes()
        if self.resizes and self.user.ends and self.resizing.random() < 0.3:
            self.user.ends_and_begins()
        if self.stands and self.standing.random() < 0.12:
            self.user.stands()
        if self.fits and self.fitting.random() < 0.12:
            self.user.bounds()
        if self.resizes and self.resizing.random() < 0.1 and asker_frozen(self):
            self.done[asker_frozen.__name__] += 1

    def _let_run(self, host: Host, faults: bool) -> None:
        awake = host.agent_frozen_until_ms <= self.world.now_ms
        if host.agent is not None and awake and (not faults or self.random.random() < 0.8):
            before = len(self.world.log)
            self.world.has_its_turn(host.name)
            host.agent.act()
            if len(self.world.log) > before:
                self.history.extend(entry for entry in self.world.log[before:] if entry is not None)
        if host.processes and self.world.log_up and host.reaches("control", self.world):
            for process in list(host.processes.values()):
                self._run(host, process)

    def _run(self, host: Host, process: Process) -> None:
        """A node joins, and goes on until a newer one has joined, or its pipeline is told that its job has ended. Of what only
        the cluster's log says it knows nothing."""
        world, job = self.world, process.unit[0]
        random = self.random if world.is_active(job) else self._ending
        if world.layouts[job].ends(world.truth.founded_ms, process.generation, process.joined):
            if self._ending.random() < 0.5:
                self._end_with_its_job(host, process)
        elif process.unit[1] == STANDBY:
            pass  # It waits for a number.
        elif not process.joined:
            if random.random() < 0.3:
                process.joined = True
                world.join(process.unit, process.generation, process.pid)
        elif world.rightful[process.unit].pid != process.pid:
            host.processes.pop(process.pid, None)
            world.counts["process replaced"] += 1

    def _end_with_its_job(self, host: Host, process: Process) -> None:
        del host.processes[process.pid]
        self.world.counts["process ended with its job"] += 1
        place = self.world.truth.places().get(process.unit)
        rightly = place is not None and place.is_of(host.name, process.generation)
        require(not rightly, NEWER_GO_ON, (host.name, process))

    # --- the end ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Violation at the first invariant that does not hold."""
        for _ in range(self.random.choice((60, 120, 200, 350))):
            self.tick(True)
        self._end_faults()
        why = self._come_to_rest()
        require(why is None or not run_after_their_end(self), ENDED_RUNS_NOWHERE, run_after_their_end(self))
        require(why is None, COMES_TO_REST, not_at_rest(self))
        self._stay_at_rest()

    def _stay_at_rest(self) -> None:
        """Nothing more is said. But that a host can't write, it may find out only when it has something to say: it is given up
        then, and others have to come to rest without it."""
        weak = {host.name for host in self.hosts if host.lasting_cut}
        may_go = set(weak)
        while True:
            entries = len(self.world.log)
            self.go_on(REST_TICKS)
            more = [one for one in self.world.log[entries:] if one is not None]
            gone = may_go & {one.agent for one in more if isinstance(one, Leave)}
            if not gone:
                break
            may_go -= gone
            require(self._come_to_rest() is None, STAYS_AT_REST, not_at_rest(self))
        upkeep = all(isinstance(one, ProposeSnapshot | ConfirmSnapshot) for one in more)
        require(upkeep and len(more) <= 4, QUIET, more[:5])
        require(
            (self._come_to_rest() if weak else not_at_rest(self)) is None, STAYS_AT_REST, not_at_rest(self)
        )

    def _come_to_rest(self) -> str | None:
        for _ in range(REST_LIMIT_TICKS):
            self.tick(False)
            if self.world.now_ms % (10 * TICK_MS) == 0 and not_at_rest(self) is None:
                return None
        return not_at_rest(self)

    def _end_faults(self) -> None:
        """Some hosts are gone for good, a few never reach something; all others work."""
        world, random = self.world, self.random
        world.log_up = world.beats_up = True
        living = [host for host in self.hosts if random.random() < 0.8] or self.hosts[:1]
        for host in self.hosts:
            host.cut_until_ms.clear()
            host.frozen_until_ms = host.agent_frozen_until_ms = 0
            host.broken_for.clear()
            self.trouble(host)
            if host not in living:
                self._lose(host)
                continue
            if host is not living[0] and random.random() < 0.12:
                host.lasting_cut = random.choice(LASTING_CUTS)
                host.cut_until_ms[host.lasting_cut] = FOR_EVER_MS
                self.trouble(host, FOR_EVER_MS)
            if host.agent is None:
                host.code_level = self.newest_level if self.two_codes else host.code_level
                self.start_agent(host)
        world.brokers_trouble_ms = world.now_ms
        self.on_their_way.clear()
        world.late.clear()

    def _lose(self, host: Host) -> None:
        host.gone, host.agent = True, None
        if self.random.random() < 0.5:
            host.processes.clear()
