"""How `kcontrol run` tells what happens: a live display on a terminal, plain lines elsewhere, or JSON
events."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kcontrol.apps.show import step_line
from kcontrol.core.model import NodePhase, StepBoundary
from kcontrol.views.node_facts import NodeFacts

PLAIN_EVERY_S = 1.0
LIVE_PER_SECOND = 5
RATE_S = 10.0
"""Rates are of so many seconds: what happens now, not since the start."""


class Rate:
    """How many a second, over the last RATE_S seconds (or since the beginning, while that is less)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        """So many more, now."""
        self._marks.append((self._clock(), count))
        self._forget()

    @property
    def per_second(self) -> float:
        self._forget()
        span_s = min(RATE_S, max(self._clock() - self._began, 0.001))
        return sum(count for _, count in self._marks) / span_s

    def _forget(self) -> None:
        oldest = self._clock() - RATE_S
        while self._marks and self._marks[0][0] < oldest:
            self._marks.popleft()


@dataclass
class Totals:
    """Of the steps that were committed while this process looked on."""

    steps: int = 0
    rates: defaultdict[tuple[str, str], Rate] = field(default_factory=lambda: defaultdict(Rate))
    """By ('in' or 'out', name), and ('steps', '')."""
    last: StepBoundary | None = None
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)

    def add(self, boundary: StepBoundary) -> None:
        """Count one more."""
        self.steps += 1
        self.last = boundary
        self.rates["steps", ""].add(1)
        for piece in boundary.inputs:
            self.read[piece.input] += piece.records
            self.rates["in", piece.input].add(piece.records)
        for out in boundary.outputs:
            self.written[out.output] += out.records
            self.rates["out", out.output].add(out.records)


class Reporter(Protocol):
    """What `run` tells. `event` is for what happens seldom, `step` for each committed step, `waiting` for the
    lag.

    phase: what is waited for before there are steps; '' when that is over. No news if it is the same as
    before.
    """

    def __enter__(self) -> Reporter: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def event(self, name: str, text: str, /, **facts: Any) -> None: ...

    def step(self, boundary: StepBoundary) -> None: ...

    def waiting(self, offsets: int) -> None: ...

    def nodes(self, now: Sequence[NodeFacts]) -> None: ...

    def phase(self, text: str) -> None: ...


OPEN, RUNNING = NodePhase.OPEN.value, NodePhase.RUNNING.value


class Changes:
    """Which nodes do something else than before. A step more is no change: steps are told for all nodes
    together, so a node that runs one is taken for open where it was before."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[str, str]] = {}

    def of(self, now: Sequence[NodeFacts]) -> list[NodeFacts]:
        """Those that changed since the last call."""
        told = [
            each.model_copy(update={"phase": OPEN, "running": None}) if each.doing == RUNNING else each
            for each in now
        ]
        changed = [each for each in told if self._before.get(each.node) != (each.doing, each.error)]
        self._before = {each.node: (each.doing, each.error) for each in told}
        return changed


def node_line(now: NodeFacts) -> str:
    """What a node does, for people."""
    return f"node {now.node}: {now.doing_text}" + (f": {now.error}" if now.error else "")


class JsonReporter:
    """One object a line: {"event": ..., ...}."""

    def __init__(self) -> None:
        self._changes = Changes()

    def __enter__(self) -> JsonReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def event(self, name: str, text: str, /, **facts: Any) -> None:
        click.echo(json.dumps({"event": name, "text": text, **facts}))

    def step(self, boundary: StepBoundary) -> None:
        facts = {
            "event": "step",
            "step": boundary.step,
            "now_ms": boundary.now_ms,
            "reason": boundary.reason.value,
            "records_in": sum(piece.records for piece in boundary.inputs),
            "records_out": sum(out.records for out in boundary.outputs),
            "took_ms": boundary.committed_ms - boundary.opened_ms,
        }
        click.echo(json.dumps(facts))

    def waiting(self, offsets: int) -> None:
        pass

    def nodes(self, now: Sequence[NodeFacts]) -> None:
        for each in self._changes.of(now):
            facts = {"node": each.node, "doing": each.doing, "step": each.step, "error": each.error}
            self.event("node", node_line(each), **facts)

    def phase(self, text: str) -> None:
        pass


class PlainReporter:
    """Lines; of steps at most one a second, with how many it stands for."""

    def __init__(self) -> None:
        self._changes = Changes()
        self._unsaid = 0
        self._last: StepBoundary | None = None
        self._said_at = 0.0
        self._phase = ""

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say()

    def event(self, _name: str, text: str, /, **_facts: Any) -> None:
        self._say()
        click.echo(text)

    def step(self, boundary: StepBoundary) -> None:
        self._unsaid += 1
        self._last = boundary
        if time.monotonic() - self._said_at >= PLAIN_EVERY_S:
            self._say()

    def waiting(self, offsets: int) -> None:
        pass

    def nodes(self, now: Sequence[NodeFacts]) -> None:
        for each in self._changes.of(now):
            self.event("node", node_line(each))

    def phase(self, text: str) -> None:
        if text and text != self._phase:
            click.echo(f"{text} ...")
        self._phase = text

    def _say(self) -> None:
        if self._last is not None:
            more = f"  (and {self._unsaid - 1} before)" if self._unsaid > 1 else ""
            click.echo(f"step {step_line(self._last).strip()}{more}")
        self._unsaid, self._last, self._said_at = 0, None, time.monotonic()


class LiveReporter:
    """A table that is drawn anew; events scroll above it."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._totals = Totals()
        self._waiting = 0
        self._nodes: Sequence[NodeFacts] = ()
        self._phase = ""
        self._spinner, self._phase_began = Spinner("dots"), 0.0
        self._console = Console()
        self._live = Live(
            console=self._console, get_renderable=self._table, refresh_per_second=LIVE_PER_SECOND
        )

    def __enter__(self) -> LiveReporter:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, value, trace)

    def event(self, _name: str, text: str, /, **_facts: Any) -> None:
        self._console.print(text, markup=False, highlight=False)

    def step(self, boundary: StepBoundary) -> None:
        self._totals.add(boundary)

    def waiting(self, offsets: int) -> None:
        self._waiting = offsets

    def nodes(self, now: Sequence[NodeFacts]) -> None:
        self._nodes = now

    def phase(self, text: str) -> None:
        if text != self._phase:
            self._phase, self._phase_began = text, time.monotonic()

    def _table(self) -> Table:
        totals, last = self._totals, self._totals.last
        table = Table(title=f"pipeline {self._pipeline}", show_header=False)
        if self._phase:
            self._spinner.update(text=Text(f"{self._phase}, {time.monotonic() - self._phase_began:.0f} s"))
            table.add_row("now", self._spinner)
        table.add_row("step", f"{last.step:,}" if last else "-")
        table.add_row("steps here", f"{totals.steps:,} ({totals.rates['steps', ''].per_second:.1f}/s)")
        for title, counter in (("in", totals.read), ("out", totals.written)):
            for name, count in counter.items():
                table.add_row(
                    f"{title}: {name}", f"{count:,} ({totals.rates[title, name].per_second:,.0f}/s)"
                )
        table.add_row("waiting", f"{self._waiting:,} offsets")
        for each in self._nodes:
            table.add_row(f"node {each.node}", Text(node_line(each).partition(": ")[2]))
        return table


def make_reporter(pipeline: str, as_json: bool) -> Reporter:
    """The one that suits where standard output goes."""
    if as_json:
        return JsonReporter()
    return LiveReporter(pipeline) if click.get_text_stream("stdout").isatty() else PlainReporter()
