"""The bench's tables of changes of a layout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.layout.parts import Change


def show_layouts(console: Console, changes: Sequence[Change]) -> None:
    """Gaps between boundaries and bytes moved, then what lay in the gap of each switch."""
    if not changes:
        return
    columns = (
        "nodes",
        "after step",
        "boundaries",
        "median ms",
        "longest ms",
        "switch ms",
        "MB moved",
        "of the optimum",
    )
    table = Table(*columns, title="a layout changed under load: gaps between boundaries, and bytes moved")
    for each in changes:
        ratio = "-" if each.moved_ratio is None else f"{each.moved_ratio:.3f}"
        gaps = (f"{each.median_ms:,.0f}", f"{each.longest_ms:,.0f}", f"{each.switch_ms:,.0f}")
        which = (_nodes(each), str(each.after_step), str(len(each.gaps_ms)))
        table.add_row(*which, *gaps, f"{each.moved_bytes / 1e6:,.2f}", ratio)
    console.print(table)
    spent = Table(
        "", *map(_nodes, changes), title="from the last step before the switch to the first after it, ms"
    )
    for place, part in enumerate(changes[0].parts):
        spent.add_row(part.what, *(f"{each.parts[place].ms:,.0f}" for each in changes))
    console.print(spent)


def _nodes(change: Change) -> str:
    return f"{change.before} to {change.nodes}"
