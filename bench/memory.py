"""How much memory each kind of process takes at its peak: with small steps, and with very
large ones of the same processes.

Python workers are forked from one daemon and share pages with it. So of a single process its resident set is
given, and of all of a kind together their proportional sets, in which a shared page counts once (Linux's
smaps_rollup).
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from types import TracebackType

import psutil

from bench.kcontrol_side import measured_steps
from bench.nodes import with_steps_of
from bench.plan import Measurement, Places, Sizes
from bench.process_kinds import processes_of
from bench.running import Running, check_written, records_read, running
from bench.topics import create_topics, delete_topics, make_source
from examples.processes import KcontrolProcess

SOURCE = "memory"
PARTITIONS = CORES = 2
SPARE_STEPS = 20
"""Small steps that may be made while the definition is changed; the source holds records for them."""
LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Size:
    """Of one process, in bytes. pss: what it shares with others divided by how many share it."""

    rss: int
    pss: int


@dataclass(frozen=True)
class Peak:
    """Of one kind of process: the most of them, the largest resident set of one, and the
    largest sum of proportional ones."""

    processes: int
    one_bytes: int
    together_bytes: int


@dataclass(frozen=True)
class MemoryUse:
    """By kind of process, while steps of one size were made; their median time."""

    workload: str
    step_records: int
    step_ms: float
    peaks: Mapping[str, Peak]


def peaks_of(looks: Sequence[Mapping[str, Sequence[Size]]]) -> dict[str, Peak]:
    """Each look: by kind the sizes of its processes at one time."""
    kinds = dict.fromkeys(kind for look in looks for kind in look)
    found = {}
    for kind in kinds:
        seen = [look[kind] for look in looks if look.get(kind)]
        largest = max(size.rss for sizes in seen for size in sizes)
        found[kind] = Peak(
            max(map(len, seen)), largest, max(sum(size.pss for size in sizes) for sizes in seen)
        )
    return found


class Watch:
    """Looks at all processes of a coordinator and a node in the background, until it is left."""

    def __init__(self, coordinator: KcontrolProcess, node: KcontrolProcess) -> None:
        self._coordinator, self._node = coordinator, node
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self.looks: list[dict[str, list[Size]]] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_EVERY_S):
            look: dict[str, list[Size]] = defaultdict(list)
            for kind, process in processes_of(self._coordinator, self._node):
                with suppress(psutil.Error):  # It has just ended.
                    memory = process.memory_full_info()
                    look[kind].append(Size(memory.rss, memory.pss))
            self.looks.append(dict(look))


def measure_memory(
    bootstrap_servers: str, all_sizes: Sequence[Sizes], say: Callable[[str], None]
) -> list[MemoryUse]:
    """One run of each workload. Raises RuntimeError when it stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(_records(sizes) for sizes in all_sizes)
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    found = []
    for sizes in all_sizes:
        name = f"bench-memory-{uuid.uuid4().hex[:8]}"
        create_topics(bootstrap_servers, name, partitions=PARTITIONS)
        try:
            with running(places, name, sizes.small.workload, sizes.small.step_records) as pipeline:
                found += [_measure(pipeline, size, say) for size in (sizes.small, sizes.large)]
                pipeline.stop()
        finally:
            delete_topics(bootstrap_servers, name)
    return found


def _records(sizes: Sizes) -> int:
    small, large = sizes.small, sizes.large
    return large.step_records * large.steps + small.step_records * (
        small.warm_up_steps + small.steps + SPARE_STEPS
    )


def _measure(pipeline: Running, size: Measurement, say: Callable[[str], None]) -> MemoryUse:
    pipeline.await_steps(lambda steps: len(steps) >= max(1, size.warm_up_steps), "warmed up")
    pipeline.redefine(lambda spec: with_steps_of(spec, size.step_records))
    done = pipeline.feed.committed
    coordinator, node = pipeline.processes
    with Watch(coordinator, node) as watch:
        steps = pipeline.await_steps(
            lambda steps: sum(records_read(step) == size.step_records for step in steps[done:]) >= size.steps,
            f"{size.steps} of {size.step_records:,} records",
        )
    for step in steps[done:]:
        check_written(size.workload, step, records_read(step))
    took_ms = [
        each.period_ms for each in measured_steps(steps[done - 1 :]) if each.records == size.step_records
    ]
    peaks = peaks_of(watch.looks)
    together = ", ".join(f"{kind} {peak.together_bytes / 1e6:,.0f} MB" for kind, peak in peaks.items())
    say(f"{size.workload}, {size.step_records:,} a step: {together}")
    return MemoryUse(size.workload, size.step_records, median(took_ms), peaks)
