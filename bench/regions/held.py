"""How long a drain holds the pipelines of a chain: each until its reader knows where to stop (aligned), or all until the
last has come to the cut and somebody lets them go on at once (stopped: `--hold`, `resume`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench.figures import Spread
from bench.plan import Holding, alternating
from bench.regions.chain import BenchRegion, chain
from kcontrol import StepPolicy
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.records import RegionCut

MODES = ("aligned", "stopped")
STEPS = StepPolicy(min_records=1, max_delay="50 ms", max_records=10_000)


@dataclass(frozen=True)
class HeldTime:
    """Of drains of one kind. held_ms: of one pipeline in one drain, from the boundary at which it stands to when it opens
    its next step; usual_ms: the same of steps without a drain (median). drain_ms: from the request to the cut in the
    region's log."""

    pipelines: int
    mode: str
    held_ms: Spread
    usual_ms: float
    drain_ms: Spread


def measure_held(bootstrap_servers: str, plan: Holding, say: Callable[[str], None]) -> list[HeldTime]:
    """Of chains of so many pipelines, one after the other. Raises RuntimeError when one stands still, RetriableError when
    a drain takes too long."""
    found = []
    for many in plan.pipelines:
        with chain(bootstrap_servers, many, plan.records_per_s, STEPS) as (region, _):
            for each in _measure(region, plan.drains):
                times = f"held {each.held_ms.median:,.0f} ms of {each.drain_ms.median:,.0f} of a drain"
                say(f"{many} pipelines, {each.mode}: {times}")
                found.append(each)
    return found


def _measure(region: BenchRegion, drains: int) -> list[HeldTime]:
    made: dict[str, list[tuple[RegionCut, float]]] = {mode: [] for mode in MODES}
    for mode in alternating(MODES, drains):
        made[mode].append(region.drain(hold=mode == "stopped"))
        if mode == "stopped":
            region.resume()
        cut = made[mode][-1][0]
        for one in cut.pipelines:
            region.until_step(one.pipeline, one.step + 2)
    steps = {name: region.boundaries(name) for name in region.pipelines}
    at_cuts = {(one.pipeline, one.step) for cuts in made.values() for cut, _ in cuts for one in cut.pipelines}
    usual_ms = usual_gap_ms(steps.values(), at_cuts)
    return [
        HeldTime(
            len(region.pipelines),
            mode,
            Spread.of(
                gap_ms(steps[one.pipeline], one.step) for cut, _ in made[mode] for one in cut.pipelines
            ),
            usual_ms,
            Spread.of(took_ms for _, took_ms in made[mode]),
        )
        for mode in MODES
    ]


def gap_ms(steps: Sequence[StepBoundary], step: int) -> float:
    """From a step's commit to when the next one was opened. Raises StopIteration: there is none."""
    before, after = next((one, two) for one, two in pairwise(steps) if one.step == step)
    return after.opened_ms - before.committed_ms


def usual_gap_ms(logs: Iterable[Sequence[StepBoundary]], but: set[tuple[str, int]]) -> float:
    """The median of it over all steps but these."""
    return median(
        after.opened_ms - before.committed_ms
        for steps in logs
        for before, after in pairwise(steps)
        if (before.pipeline, before.step) not in but
    )
