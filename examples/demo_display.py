"""What the demo shows: progress while the pipeline runs, and the table at its end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.flights_proof import Proof
from examples.step_feed import Boundary, StepFeed, records_in, records_out

if TYPE_CHECKING:
    from examples.demo import Recovery

REFRESH_S = 0.2


class Display:
    """A bar of the records in committed steps, with lines above it for what happens."""

    def __init__(self, console: Console, feed: StepFeed, total: int) -> None:
        self._console = console
        self._feed = feed
        columns = (
            TextColumn("step {task.fields[step]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._bar = self._progress.add_task("records", total=total, step=0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="display", daemon=True)

    def __enter__(self) -> Display:
        self._progress.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._update()
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(text, highlight=False)

    def _refresh(self) -> None:
        while not self._over.wait(REFRESH_S):
            self._update()

    def _update(self) -> None:
        steps = self._feed.steps
        self._progress.update(self._bar, completed=records_in(steps), step=len(steps))


def show_outcome(
    console: Console, steps: Sequence[Boundary], recoveries: Sequence[Recovery], aborted: int, proof: Proof
) -> None:
    """The table of what was done, and what the comparison found."""
    done = list(steps)
    table = Table(
        show_header=False,
        title="flights: delays by carrier and origin, and the delayed flights",
        title_justify="left",
    )
    table.add_row("steps committed", f"{len(done):,}")
    table.add_row("records in", f"{records_in(done):,}")
    table.add_row("records out", f"{records_out(done):,}")
    table.add_row("attempts aborted", f"{aborted:,}, none of them visible")
    for recovery in recoveries:
        table.add_row(
            f"kill -9 {recovery.what}",
            f"in step {recovery.at_step + 1}, next commit {recovery.took_ms / 1000:.1f} s later",
        )
    colour = "green" if proof.holds else "red"
    table.add_row(
        "read_committed against plain Spark",
        f"[{colour}]{proof.lost} lost, {proof.duplicated} duplicated, {proof.torn} torn[/]",
    )
    console.print(table)
    for problem in proof.problems:
        console.print(f"[red]{problem}[/]", highlight=False)
