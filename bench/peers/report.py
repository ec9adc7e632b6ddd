"""The peers side by side: a row for each, columns by workload."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.figures import Tail
from bench.peers.measure import PeerFigures


def show_peers(console: Console, found: Sequence[PeerFigures]) -> None:
    """A table of records/s, one of latencies, and a sentence for each figure that is missing."""
    if not found:
        return
    workloads = list(dict.fromkeys(each.workload for each in found))
    rates = Table("", "delivery", *workloads, title="records/s out of a backlog")
    tails = Table(
        "", "delivery", *workloads, title="ms at a steady stream: median, 99th percentile, greatest"
    )
    for title in dict.fromkeys(each.title for each in found):
        of_title = {each.workload: each for each in found if each.title == title}
        delivery = next(iter(of_title.values())).delivery
        rates.add_row(title, delivery, *(_rate(of_title.get(each)) for each in workloads))
        tails.add_row(title, delivery, *(_tail(of_title.get(each)) for each in workloads))
    console.print(rates)
    console.print(tails)
    for each in found:
        if each.failed:
            console.print(f"{each.title}, {each.workload} has no figure. {each.failed}", markup=False)


def _rate(figures: PeerFigures | None) -> str:
    return "-" if figures is None or figures.records_per_s is None else f"{figures.records_per_s:,.0f}"


def _tail(figures: PeerFigures | None) -> str:
    tail: Tail | None = None if figures is None else figures.latency
    return (
        "-" if tail is None else ", ".join(f"{each:,.0f}" for each in (tail.median, tail.p99, tail.greatest))
    )
