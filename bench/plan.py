"""What is measured, in which order, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """The broker, the topic that both sides read, and what both may use of the machine."""

    bootstrap_servers: str
    source: str
    partitions: int
    cores: int


@dataclass(frozen=True)
class Measurement:
    """One workload at one step size; steps are counted after the warm-up.

    more_warm_up_steps: of kcontrol, whose small steps are shorter: both sides shall have run for about as long, since most of
    what a JVM computes in its first minute is the compilation of what it runs.
    """

    workload: str
    step_records: int
    warm_up_steps: int
    steps: int
    more_warm_up_steps: int = 0

    @property
    def records(self) -> int:
        """What the source must hold: one step more than is counted, because Spark's last one only ends the
        one before."""
        return self.step_records * (self.kcontrol_warm_up_steps + self.steps + 1)

    @property
    def kcontrol_warm_up_steps(self) -> int:
        return self.warm_up_steps + self.more_warm_up_steps


LARGE: tuple[Measurement, ...] = (
    Measurement("passthrough", 800_000, 2, 4),
    Measurement("keyed", 800_000, 2, 4),
    Measurement("aggregate", 800_000, 2, 4),
)
SMALL: tuple[Measurement, ...] = (
    Measurement("passthrough", 1_000, 300, 100, 900),
    Measurement("aggregate", 1_000, 200, 100, 300),
)
PROFILED: tuple[Measurement, ...] = tuple(
    Measurement(workload, 800_000, 3, 6) for workload in ("passthrough", "keyed", "aggregate")
)
"""More steps than in `LARGE`, because the processor times are of all of them together."""
SETTINGS: tuple[Measurement, ...] = (
    Measurement("aggregate", 1_000, 60, 60),
    *(Measurement(workload, 800_000, 2, 4) for workload in ("passthrough", "keyed", "aggregate")),
)
PLANNING: tuple[Measurement, ...] = (
    Measurement("passthrough", 1_000, 150, 100),
    Measurement("aggregate", 1_000, 150, 100),
    Measurement("passthrough", 800_000, 2, 4),
    Measurement("aggregate", 800_000, 2, 4),
)
EXCHANGING: tuple[Measurement, ...] = (
    Measurement("aggregate", 1_000, 400, 100),
    Measurement("aggregate", 800_000, 6, 8),
)
"""Made in this order by the same processes."""
QUICK_EXCHANGING: tuple[Measurement, ...] = (Measurement("aggregate", 1_000, 5, 10),)
QUICK_PLANNING: tuple[Measurement, ...] = (
    Measurement("passthrough", 1_000, 10, 15),
    Measurement("aggregate", 1_000, 10, 15),
)
QUICK_SETTINGS: tuple[Measurement, ...] = (Measurement("aggregate", 1_000, 10, 10),)
QUICK_LARGE: tuple[Measurement, ...] = (
    Measurement("passthrough", 200_000, 1, 2),
    Measurement("aggregate", 200_000, 1, 2),
)
QUICK_SMALL: tuple[Measurement, ...] = (
    Measurement("passthrough", 1_000, 10, 15),
    Measurement("aggregate", 1_000, 10, 15),
)


def alternating(sides: tuple[str, ...], repeats: int) -> Iterator[str]:
    """A B, B A, A B, ...: a machine that gets slower with time is not held against one side."""
    for turn in range(repeats):
        yield from sides if turn % 2 == 0 else reversed(sides)


@dataclass(frozen=True)
class Scale:
    """How many nodes share how many partitions; outputs have as many as the input."""

    nodes: int
    partitions: int


_BASE = Scale(1, 4)
SCALES = (*(Scale(nodes, partitions) for partitions in (4, 16, 64) for nodes in (1, 2, 4)), _BASE)
"""The one that all are compared with comes first and last, so that a machine that drifts shows in its
spread."""
SCALE_STEPS = (Measurement("passthrough", 1_000, 30, 40), Measurement("passthrough", 200_000, 2, 6))
"""In this order, in the same processes."""
STEADY = tuple(
    (Measurement(workload, 1_000, 1_500, 500), Measurement(workload, 800_000, 20, 20))
    for workload in ("passthrough", "aggregate")
)
"""Small steps, and then large ones by the same processes."""
QUICK_STEADY = ((Measurement("passthrough", 1_000, 10, 10), Measurement("passthrough", 20_000, 1, 3)),)
QUICK_SCALES = (_BASE, Scale(2, 16))
QUICK_SCALE_STEPS = (Measurement("passthrough", 1_000, 10, 10), Measurement("passthrough", 20_000, 1, 3))


@dataclass(frozen=True)
class Owning:
    """Steps of one node that owns some of a query's shards, counted after the warm-up."""

    step_records: int
    warm_up_steps: int
    steps: int


OWNING = Owning(1_000, 30, 60)
QUICK_OWNING = Owning(1_000, 5, 10)


@dataclass(frozen=True)
class Saving:
    """Checkpoints against none, in windows that take turns; steps are those of a window,
    warm-up comes before the first one.

    keys: as many as a large step has records, so that all state is there after the first.
    """

    keys: int
    every_ms: int
    windows: int
    small: Measurement
    large: Measurement


SAVING = Saving(
    100_000, 2_000, 8, Measurement("aggregate", 1_000, 20, 60), Measurement("aggregate", 100_000, 10, 15)
)
QUICK_SAVING = Saving(
    10_000, 1_000, 2, Measurement("aggregate", 1_000, 5, 15), Measurement("aggregate", 10_000, 2, 8)
)


@dataclass(frozen=True)
class Stream:
    """A steady stream of records, measured after a warm-up; without a pipeline both take a quarter of the
    time."""

    records_per_s: int
    warm_up_s: float
    measured_s: float


STREAM = Stream(1_000, 60, 60)
QUICK_STREAM = Stream(1_000, 6, 6)


@dataclass(frozen=True)
class Sizes:
    """Steps of two sizes by the same processes, a few of the small ones first."""

    small: Measurement
    large: Measurement


MEMORY = tuple(
    Sizes(Measurement(workload, 100_000, 3, 5), Measurement(workload, 10_000_000, 0, 2))
    for workload in ("passthrough", "keyed", "aggregate")
)
QUICK_MEMORY = (Sizes(Measurement("passthrough", 10_000, 1, 2), Measurement("passthrough", 300_000, 0, 1)),)


@dataclass(frozen=True)
class Soak:
    """Steps of the control plane alone, and steps of so many records with Spark, of which
    every so many a worker is killed."""

    steps: int
    spark_steps: int
    kill_every: int
    step_records: int


SOAK = Soak(100_000, 2_000, 20, 100)
QUICK_SOAK = Soak(1_000, 60, 20, 100)


@dataclass(frozen=True)
class Clusters:
    """agents: of one cluster after the other. entries: of the log of each. whole: of those, so many that are applied
    without what is known from the one before, too."""

    agents: tuple[int, ...]
    entries: int
    whole: int


CLUSTERS = Clusters((10, 100, 1_000), 100_000, 6_000)
QUICK_CLUSTERS = Clusters((10, 30), 400, 400)


@dataclass(frozen=True)
class Changing:
    """A layout that is changed under a steady load, with so many steps before and after each change. path: the numbers of nodes
    of one round, one after the other; the first round begins with one node. state_mb: about how much state there is.
    partitions: of the input and the output. shards: of the state."""

    records_per_s: int
    settle_steps: int
    rounds: int
    path: tuple[int, ...] = (2, 1)
    state_mb: float = 1.0
    partitions: int = 2
    shards: int = 4


CHANGING = Changing(1_000, 20, 3)
QUICK_CHANGING = Changing(200, 5, 1)
MOST_NODES = 4
"""Of a path that is asked for: each has a partition."""
EVEN_SHARDS = 12
"""Of two, three or four nodes each has as many."""


@dataclass(frozen=True)
class Draining:
    """Windows of steps of each size with a drain every so often and with none, in turns; warm-up comes before the first.
    spare_steps: by size, those for which the source has records between two windows, while the region is defined anew."""

    sizes: tuple[Measurement, ...]
    windows: int
    period_ms: int
    spare_steps: tuple[int, ...]

    @property
    def records(self) -> int:
        """What the source must hold."""
        return sum(
            size.step_records * (size.warm_up_steps + self.windows * (size.steps + spare) + spare)
            for size, spare in zip(self.sizes, self.spare_steps, strict=True)
        )


DRAINING = Draining(
    (Measurement("aggregate", 1_000, 300, 300), Measurement("aggregate", 50_000, 10, 40)),
    8,
    1_000,
    (300, 20),
)
QUICK_DRAINING = Draining(
    (Measurement("aggregate", 1_000, 10, 60), Measurement("aggregate", 5_000, 2, 30)), 4, 1_000, (200, 100)
)


@dataclass(frozen=True)
class Holding:
    """Chains of so many pipelines, each drained so often in each way, under a load."""

    pipelines: tuple[int, ...]
    drains: int
    records_per_s: int


HOLDING = Holding((1, 2, 4, 8), 20, 100)
QUICK_HOLDING = Holding((1, 3), 2, 100)


@dataclass(frozen=True)
class GoingBack:
    """A chain that is taken back by so many steps of each pipeline, so many times, under a load."""

    pipelines: int
    steps: int
    rounds: int
    records_per_s: int


GOING_BACK = GoingBack(3, 1_000, 3, 100)
QUICK_GOING_BACK = GoingBack(2, 20, 1, 100)


@dataclass(frozen=True)
class Dying:
    """hosts: agents, with room for one node each. kills: so often the host of the node is killed. settle_steps: committed
    before each, with all hosts there. standbys: processes that stand by for the node, on other hosts. beat_ms: between two
    beats of an agent; None: as it is by default. checkpoint_every: from one checkpoint to the next, as a definition says it."""

    hosts: int
    kills: int
    settle_steps: int
    standbys: int = 0
    beat_ms: int | None = None
    checkpoint_every: str = "3 s"


DYING = Dying(3, 8, 60)
QUICK_DYING = Dying(2, 1, 5)
