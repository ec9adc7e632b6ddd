"""How long it takes to go back: from `kcontrol region rollback` to the first step that all pipelines of a chain make
after it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.figures import Spread
from bench.plan import GoingBack
from bench.regions.chain import TIMEOUT_S, BenchRegion, chain
from examples.processes import KcontrolProcess, now_ms
from kcontrol import StepPolicy
from kcontrol.apps.ask import ask_mode
from kcontrol.core.model import DesiredMode, StepBoundary

STEPS = StepPolicy(min_records=1, max_delay="50 ms", max_records=10_000)


@dataclass(frozen=True)
class RollbackTime:
    """Of rollbacks by at least so many steps of each pipeline. command_ms: until all are back, the command's start
    included. again_ms: from then until each has committed a new step, the start of the nodes' process included. first_ms:
    from the command to the first new step of any."""

    pipelines: int
    steps: int
    command_ms: Spread
    first_ms: Spread
    again_ms: Spread


def measure_rollbacks(
    bootstrap_servers: str, plan: GoingBack, say: Callable[[str], None]
) -> list[RollbackTime]:
    """So many rounds of one chain. Raises RuntimeError when something stands still or fails."""
    command, first, again = list[float](), list[float](), list[float]()
    with chain(bootstrap_servers, plan.pipelines, plan.records_per_s, STEPS) as (region, nodes):
        for number in range(plan.rounds):
            cut, _ = region.drain()
            for one in cut.pipelines:
                region.until_step(one.pipeline, one.step + plan.steps)
            begun_ms, back_ms, new_ms = _round(region, nodes, cut.number)
            command.append(back_ms - begun_ms)
            first.append(min(new_ms) - begun_ms)
            again.append(max(new_ms) - back_ms)
            say(
                f"rollback {number + 1} of {plan.rounds}: {command[-1] / 1e3:.1f} s, the first new step after "
                f"{first[-1] / 1e3:.1f} s"
            )
    return [RollbackTime(plan.pipelines, plan.steps, *map(Spread.of, (command, first, again)))]


def _round(region: BenchRegion, nodes: KcontrolProcess, to_cut: int) -> tuple[float, float, list[float]]:
    """When the command began, when it was over, and when each pipeline has committed its first new step."""
    for pipeline in region.pipelines:
        asyncio.run(ask_mode(region.settings, pipeline, DesiredMode.STOPPED))
    nodes.stop()
    for pipeline in region.pipelines:
        # A life that had begun anew by then has not taken leave.
        region.until(partial(region.stands, pipeline), f"{pipeline} stands")
    begun_ms = now_ms()
    arguments = ("region", "rollback", region.name, "--to-cut", str(to_cut))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kcontrol.cli", *arguments),
            *("--bootstrap-servers", region.settings.bootstrap_servers),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"kcontrol {' '.join(arguments)}: {done.stderr}")
    back_ms = now_ms()
    nodes.start()
    for pipeline in region.pipelines:
        asyncio.run(ask_mode(region.settings, pipeline, DesiredMode.RUNNING))
    for pipeline in region.pipelines:
        region.until(
            lambda pipeline=pipeline: _first_new(region.boundaries(pipeline)) is not None,  # type: ignore[misc]
            f"a step of {pipeline} after its reset",
        )
    found = [_first_new(region.boundaries(pipeline)) for pipeline in region.pipelines]
    return begun_ms, back_ms, [each.committed_ms for each in found if each is not None]


def _first_new(steps: list[StepBoundary]) -> StepBoundary | None:
    """After the newest reset."""
    at = max(number for number, each in enumerate(steps) if each.reset is not None)
    return steps[at + 1] if at + 1 < len(steps) else None
