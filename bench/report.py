"""The bench's findings: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.figures import Comparison, Run, Spread, step_times, throughput
from bench.phases import Phases
from bench.startup import StartUp


@dataclass
class Findings:
    """All that one bench measured. phases: by workload, of kcontrol's small steps."""

    runs: list[Run] = field(default_factory=list)
    phases: dict[tuple[str, int], list[Phases]] = field(default_factory=dict)
    recovery_ms: Mapping[str, Spread] = field(default_factory=dict)
    startup: Sequence[StartUp] = ()

    def of_size(self, large: int) -> list[Comparison]:
        """Records/s, of the large steps."""
        return [each for each in throughput(self.runs) if each.step_records == large]


def to_json(findings: Findings, large: int) -> str:
    """Everything, single steps included."""
    return json.dumps(
        {
            "machine": {"processors": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
            "records_per_s": [asdict(each) for each in findings.of_size(large)],
            "step_ms": [asdict(each) for each in step_times(findings.runs)],
            "phases_ms": [
                {"workload": workload, "step_records": records, **_phase_medians(found)}
                for (workload, records), found in findings.phases.items()
            ],
            "recovery_ms": {target: asdict(spread) for target, spread in findings.recovery_ms.items()},
            "startup_ms": [asdict(each) for each in findings.startup],
            "runs": [asdict(run) | {"records_per_s": run.records_per_s} for run in findings.runs],
        }
    )


def show(console: Console, findings: Findings, large: int) -> None:
    """Tables: throughput, time from step to step, phases, recovery, start-up."""
    _show_comparisons(console, f"records/s, steps of {large:,} records (median over runs)", findings.of_size(large))
    _show_comparisons(console, "ms from step to step (median over steps)", step_times(findings.runs))
    _show_phases(console, findings.phases)
    if findings.recovery_ms:
        table = Table("killed", "median s", "least s", "greatest s", "times", title="from SIGKILL to the next commit")
        for target, spread in findings.recovery_ms.items():
            seconds = (f"{each / 1000:.1f}" for each in (spread.median, spread.least, spread.greatest))
            table.add_row(target, *seconds, str(spread.count))
        console.print(table)
    _show_startup(console, findings.startup)


def _show_comparisons(console: Console, title: str, compared: Iterable[Comparison]) -> None:
    table = Table("workload", "records a step", "Spark 4.0 + connector", "kcontrol", "times as fast", title=title)
    for each in compared:
        ratio = f"{each.ratio:.2f}" if each.ratio is not None else "-"
        table.add_row(each.workload, f"{each.step_records:,}", _spread(each.spark), _spread(each.kcontrol), ratio)
    console.print(table)


def _show_phases(console: Console, phases: Mapping[tuple[str, int], Sequence[Phases]]) -> None:
    columns = ("workload", "records a step", "Spark records", "open", "Spark works", "commit", "control plane")
    table = Table(*columns, title="where the time of kcontrol's steps goes, ms (medians)")
    for (workload, records), found in phases.items():
        if found:
            medians = _phase_medians(found)
            figures = (f"{medians[name]:.0f}" for name in ("record_ms", "open_ms", "work_ms", "commit_ms"))
            table.add_row(workload, f"{records:,}", *figures, f"{100 * medians['control_share']:.1f} %")
    console.print(table)


def _show_startup(console: Console, startup: Sequence[StartUp]) -> None:
    columns = ("steps in the log", "coordinator", "reading from the checkpoint", "reading all")
    table = Table(*columns, title="start-up, ms (median, least to greatest)")
    for each in startup:
        table.add_row(f"{each.steps:,}", _spread(each.coordinator), _spread(each.reading), _spread(each.whole))
    if startup:
        console.print(table)


def _phase_medians(found: Sequence[Phases]) -> dict[str, float]:
    names = ("record_ms", "open_ms", "work_ms", "commit_ms", "control_share")
    return {name: median(getattr(each, name) for each in found) for name in names} if found else {}


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.median:,.0f}  ({spread.least:,.0f} to {spread.greatest:,.0f})"
