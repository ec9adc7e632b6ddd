"""The bench's tables of processes and hosts that are killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.figures import Spread
from bench.hosts.parts import HostDeath, by_what, spent


def show_recovery(console: Console, recovery_ms: Mapping[str, Spread]) -> None:
    """By what was killed, on its own."""
    if not recovery_ms:
        return
    table = Table(
        "killed", "median s", "least s", "greatest s", "times", title="from SIGKILL to the next commit"
    )
    for target, spread in recovery_ms.items():
        table.add_row(target, *_seconds(spread), str(spread.count))
    console.print(table)


def show_hosts(console: Console, deaths: Sequence[HostDeath]) -> None:
    """From the death of a host to the next commit, and what lay between."""
    if not deaths:
        return
    table = Table(
        *("died with the host", "median s", "least s", "greatest s", "times"),
        title="from SIGKILL of a node's host to the pipeline's next commit",
    )
    for what, spread in by_what(deaths).items():
        table.add_row(what, *_seconds(spread), str(spread.count))
    console.print(table)
    table = Table("", "median s", "least s", "greatest s", title="where that time goes")
    for what, spread in spent(deaths).items():
        table.add_row(what, *_seconds(spread))
    console.print(table)


def _seconds(spread: Spread) -> list[str]:
    return [f"{each / 1e3:.1f}" for each in (spread.median, spread.least, spread.greatest)]
