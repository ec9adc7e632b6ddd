"""The bench's tables of regions."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.figures import Spread, whole
from bench.regions.drains import DrainCost
from bench.regions.held import HeldTime
from bench.regions.rollback import RollbackTime


@dataclass(frozen=True)
class RegionFigures:
    """All that was measured of regions."""

    drains: tuple[DrainCost, ...]
    held: tuple[HeldTime, ...]
    rollbacks: tuple[RollbackTime, ...]


def show_regions(console: Console, figures: RegionFigures | None) -> None:
    """What drains cost, how long they hold, and how long it takes to go back."""
    if figures is None:
        return
    columns = ("workload", "records a step", "without", "with drains", "lost", "drains", "a second")
    table = Table(*columns, title="a drain every second: records/s by window (median, least to greatest)")
    for cost in figures.drains:
        which = (cost.workload, f"{cost.step_records:,}")
        rates = (whole(cost.without), whole(cost.with_))
        table.add_row(*which, *rates, f"{100 * cost.lost:.1f} %", str(cost.drains), f"{cost.per_s:.2f}")
    console.print(table)
    table = Table(
        *("pipelines", "drains", "held, ms", "between other steps, ms", "the whole drain, ms"),
        title="how long a drain holds a pipeline of a chain (median, least to greatest)",
    )
    for held in figures.held:
        times = (whole(held.held_ms), f"{held.usual_ms:,.0f}", whole(held.drain_ms))
        table.add_row(str(held.pipelines), f"{held.drain_ms.count} {held.mode}", *times)
    console.print(table)
    table = Table(
        *("pipelines", "steps", "the command, s", "to the first new step, s", "start to all new steps, s"),
        title="a rollback (median, least to greatest)",
    )
    for back in figures.rollbacks:
        spreads = (_seconds(each) for each in (back.command_ms, back.first_ms, back.again_ms))
        table.add_row(str(back.pipelines), f"{back.steps:,}", *spreads)
    console.print(table)


def _seconds(spread: Spread) -> str:
    return f"{spread.median / 1e3:.1f} ({spread.least / 1e3:.1f} to {spread.greatest / 1e3:.1f})"
