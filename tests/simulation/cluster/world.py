"""What survives a process: the log, the beats, snapshots, the joins of nodes; and an oracle that folds the
log beside everybody.

Every entry is applied by the oracle as soon as it is appended, and the invariants are checked on the value
that it makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from kcontrol.core.cluster.agent import SavedReplica
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import ClusterEntry, FitJob, SubmitJob
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import EMPTY, RESUMED_LEVEL, Mark, Unit
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.wards import Ward
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import AgentPlacement, Logged, NodeJoin
from tests.simulation.cluster.invariants import OLDER_PLACEMENT, ONLY_CONFIRMED_CUT, Applied, check_entry
from tests.simulation.cluster.layouts import PipelineLayout, running_layouts
from tests.simulation.cluster.same_values import SameValues
from tests.simulation.invariants import require

TICK_MS = 1_000
NEVER_MS = -(10**12)
FOR_EVER_MS = 10**12
UNFIT_MS = 40 * TICK_MS
"""Who has not read the log to its end for longer falls silent by itself."""


@dataclass(frozen=True)
class NodeLife:
    """A process of a node that has joined its pipeline."""

    generation: int
    position: int
    pid: int


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """Of an agent, in which it does what is due. beats: so many there were before it, of all agents. could_beat: whether it may
    be heard by one: anybody can write beats, and it is not silent by itself for not having read the log to its end."""

    at_ms: int
    beats: int
    could_beat: bool


class ClusterWorld:
    """Kafka, as far as a cluster sees it, and what is true."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.log: list[ClusterEntry | None] = []
        """None: deleted."""
        self.start = 0
        self.beats: list[Beat] = []
        self.snapshots: dict[Mark, SavedReplica] = {}
        self.were_read: set[Mark] = set()
        """Snapshots that somebody has found to be right."""
        self.rightful: dict[Unit, NodeLife] = {}
        self.views: dict[Unit, PipelineView] = {}
        """What a reader of the control topic knows of the processes of each unit."""
        self.done: set[Ward] = set()
        """Tasks whose input has ended, with all of it in committed steps."""
        self.layouts: dict[str, PipelineLayout] = {}
        """By job, what the log of its pipeline says of its layout."""
        self.truth = EMPTY
        self.marks: dict[int, str] = {}
        self.log_up = self.beats_up = True
        self.trouble_ms: dict[str, int] = {}
        """By agent, until when something was wrong with its host."""
        self.brokers_trouble_ms = NEVER_MS
        self.turns: dict[str, list[AgentTurn]] = {}
        """By agent, all that it had."""
        self.read_ends: dict[str, int] = {}
        """By agent, when its process began, or has last read the log to its end."""
        self.counts: Counter[str] = Counter()
        self.late: list[ClusterEntry] = []
        """Appends that were given up, and arrive all the same."""
        self.carried_out: Counter[tuple[str, str]] = Counter()
        self.in_vain: Counter[ClusterEntry] = Counter()
        self.is_alive: Callable[[str, str], bool] = lambda name, incarnation: False
        self.values = SameValues()
        self.pids = 0
        self._positions = 0

    def next_pid(self) -> int:
        self.pids += 1
        return self.pids

    def append(self, entry: ClusterEntry, late: bool = False) -> str:
        """Why it was rejected. late: it was on its way for long, or came twice, so that it may have been true
        once."""
        offset = len(self.log)
        self.log.append(entry)
        before = self.truth
        self.truth, why = apply(before, offset, entry)
        self.values.is_true(self.truth)
        kind = type(entry).__name__
        self.counts[f"{kind} rejected" if why else kind] += 1
        if offset % self.truth.policy.digest_every == 0:
            self.marks[offset] = digest(self.truth)
        if not why:
            self._begin_pipelines(entry)
        check_entry(self, Applied(before, self.truth, entry, offset, why, late))
        return why

    def _begin_pipelines(self, entry: ClusterEntry) -> None:
        """Processes that all begin anew begin with as many nodes as are wanted. Those of a job that has ended, and is submitted
        again, begin with the layout that its pipeline had, if it was being given another one, or that is wanted."""
        for name, layout in running_layouts(self).items():
            if not self.is_active(name):
                layout.end(self.truth.level >= RESUMED_LEVEL)
        job = self.truth.jobs.get(entry.job) if isinstance(entry, SubmitJob | FitJob) else None
        if job is None or job.revision != self.truth.offset:
            return
        layout = self.layouts.setdefault(job.name, PipelineLayout(job.name))
        ended = layout.nodes > 0 and not layout.runs
        if ended and job.resizable and (job.kept or layout.nodes == job.nodes):
            layout.runs = True
            self.counts["a job that has ended goes on by its layout"] += 1
        elif not job.kept or not layout.nodes:
            layout.begin(job.nodes if job.resizable else 0)

    def is_active(self, name: str) -> bool:
        job = self.truth.jobs.get(name)
        return job is not None and job.active

    def has_its_turn(self, agent: str) -> None:
        """It does what is due now."""
        since_read_ms = self.now_ms - self.read_ends.get(agent, self.now_ms)
        could_beat = self.beats_up and since_read_ms <= UNFIT_MS
        self.turns.setdefault(agent, []).append(AgentTurn(self.now_ms, len(self.beats), could_beat))

    def excused_ms(self, agent: str, by: str) -> int:
        """When it was last over that something was wrong by which `by` may rightly find an agent silent."""
        host_ms = self.trouble_ms.get(agent, NEVER_MS)
        return max(host_ms, self.brokers_trouble_ms, self.passed_over_ms(agent, by))

    def passed_over_ms(self, agent: str, by: str) -> int:
        """When it was last over that an agent had no turn in which it could have beaten, while another beat so often that it
        rightly found it silent. One beat less is enough: the first may come before a turn in which the silent one was not due
        yet."""
        over_ms, beaten = NEVER_MS, 0
        now = AgentTurn(self.now_ms, len(self.beats), self.beats_up)
        for before, after in pairwise([*self.turns.get(agent, ()), now]):
            more = sum(beat.agent == by for beat in self.beats[before.beats : after.beats])
            beaten = more if before.could_beat else beaten + more
            if more and beaten >= self.truth.policy.silent_after - 1:
                over_ms = after.at_ms
        return over_ms

    def cut(self, to: int) -> None:
        """Delete what is before an offset."""
        require(to <= self.truth.base.offset + 1, ONLY_CONFIRMED_CUT, (to, self.truth.base))
        self.log[self.start : to] = [None] * (to - self.start)
        self.start = max(self.start, to)
        self.counts["log cut"] += 1

    def join(self, unit: Unit, generation: int, pid: int) -> None:
        """A node's process says in its pipeline's control topic that it is there."""
        self._positions += 1
        pipeline, node = f"{unit[0]}-{unit[1]}", unit[2]
        placement = AgentPlacement(self.truth.founded_ms, generation)
        join = NodeJoin(pipeline, node, str(pid), "sim", pid, placement=placement)
        view = evolve(
            self.views.get(unit, PipelineView.empty(pipeline)), Logged(self._positions, self.now_ms, join)
        )
        self.views[unit] = view
        self.layouts[unit[0]].join(unit, pid, placement)
        if view.incarnation(node) == self._positions:
            now = self.rightful.get(unit)
            older = now is not None and generation < now.generation
            require(not older, OLDER_PLACEMENT, (unit, generation, now))
            self.rightful[unit] = NodeLife(generation, self._positions, pid)
