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

from bench.checkpoints import SavingCost
from bench.cluster import EntryRate
from bench.exchange import ExchangeCost
from bench.figures import Comparison, Run, Spread, Tail, step_times, throughput
from bench.hosts.parts import HostDeath, as_json
from bench.hosts.report import show_hosts, show_recovery
from bench.latency import Latency
from bench.layout.parts import Change
from bench.layout.report import show_layouts
from bench.memory import MemoryUse, Peak
from bench.nodes import ScaleRun, scaled
from bench.peers.measure import PeerFigures
from bench.peers.report import show_peers
from bench.phases import Phases
from bench.planning import PlanningGain
from bench.processor import Profile
from bench.questions.measure import QuestionCost
from bench.questions.report import show_questions
from bench.regions.report import RegionFigures, show_regions
from bench.rest import RestEffect
from bench.settings import SettingGain
from bench.shards import ShardCost
from bench.soak import SoakRun
from bench.startup import StartUp
from bench.steady import Steady

PHASES = ("Spark records", "open", "Spark works", "commit", "control plane")


@dataclass
class Findings:
    """All that one bench measured. phases: by workload, of kcontrol's small steps."""

    runs: list[Run] = field(default_factory=list)
    phases: dict[tuple[str, int], list[Phases]] = field(default_factory=dict)
    recovery_ms: Mapping[str, Spread] = field(default_factory=dict)
    hosts: Sequence[HostDeath] = ()
    startup: Sequence[StartUp] = ()
    rest: RestEffect | None = None
    scales: Sequence[ScaleRun] = ()
    steady: Steady = field(default_factory=dict)
    saving: Sequence[SavingCost] = ()
    latency: Sequence[Latency] = ()
    memory: Sequence[MemoryUse] = ()
    profile: Profile | None = None
    planning: Sequence[PlanningGain] = ()
    exchange: Sequence[ExchangeCost] = ()
    shards: Sequence[ShardCost] = ()
    layouts: Sequence[Change] = ()
    settings: Sequence[SettingGain] = ()
    soak: Sequence[SoakRun] = ()
    regions: RegionFigures | None = None
    questions: QuestionCost | None = None
    cluster: Sequence[EntryRate] = ()
    peers: Sequence[PeerFigures] = ()

    def of_size(self, large: int) -> list[Comparison]:
        """Records/s, of the large steps."""
        return [each for each in throughput(self.runs) if each.step_records == large]


def to_json(findings: Findings, large: int) -> str:
    """Everything, single steps included."""
    return json.dumps(
        {
            "machine": {
                "processors": os.cpu_count(),
                "platform": platform.platform(),
                "python": platform.python_version(),
            },
            "records_per_s": [asdict(each) for each in findings.of_size(large)],
            "step_ms": [asdict(each) for each in step_times(findings.runs)],
            "phases_ms": _phases_by_key(findings.phases),
            "steady_phases_ms": _phases_by_key(findings.steady),
            "recovery_ms": {target: asdict(spread) for target, spread in findings.recovery_ms.items()},
            "hosts": as_json(findings.hosts),
            "rest": asdict(findings.rest) if findings.rest is not None else None,
            "startup_ms": [asdict(each) for each in findings.startup],
            "nodes": [asdict(each) for each in scaled(findings.scales)],
            "node_runs": [asdict(each) for each in findings.scales],
            "checkpoints": [asdict(each) for each in findings.saving],
            "latency_ms": [asdict(each) for each in findings.latency],
            "memory": [asdict(each) for each in findings.memory],
            "profile": None if findings.profile is None else asdict(findings.profile),
            "planning": [asdict(each) | {"ratio": each.ratio} for each in findings.planning],
            "exchange": [asdict(each) for each in findings.exchange],
            "shards": [asdict(each) for each in findings.shards],
            "regions": None if findings.regions is None else asdict(findings.regions),
            "questions": None if findings.questions is None else asdict(findings.questions),
            "cluster": [asdict(each) for each in findings.cluster],
            "layouts": [
                asdict(each) | {"longest_ms": each.longest_ms, "median_ms": each.median_ms}
                for each in findings.layouts
            ],
            "settings": [asdict(each) | {"ratio": each.ratio} for each in findings.settings],
            "soak": [asdict(each) for each in findings.soak],
            "peers": [asdict(each) for each in findings.peers],
            "runs": [asdict(run) | {"records_per_s": run.records_per_s} for run in findings.runs],
        }
    )


def show(console: Console, findings: Findings, large: int) -> None:
    """Tables of what was measured: throughput, time from step to step, phases,
    recovery, start-up, and so on."""
    if findings.runs:
        _show_comparisons(
            console, f"records/s, steps of {large:,} records (median over runs)", findings.of_size(large)
        )
        _show_comparisons(console, "ms from step to step (median over steps)", step_times(findings.runs))
        _show_phases(console, "where the time of kcontrol's steps goes, ms (medians)", findings.phases)
    show_recovery(console, findings.recovery_ms)
    show_hosts(console, findings.hosts)
    _show_startup(console, findings.startup)
    if findings.rest is not None:
        _show_rest(console, findings.rest)
    _show_nodes(console, findings.scales)
    if findings.steady:
        _show_phases(
            console, "where it goes in a pipeline that has run for a while, ms (medians)", findings.steady
        )
    _show_saving(console, findings.saving)
    _show_latency(console, findings.latency)
    _show_memory(console, findings.memory)
    if findings.profile is not None:
        _show_profile(console, findings.profile)
    _show_planning(console, findings.planning)
    _show_exchange(console, findings.exchange)
    _show_shards(console, findings.shards)
    show_layouts(console, findings.layouts)
    _show_settings(console, findings.settings)
    _show_soak(console, findings.soak)
    show_regions(console, findings.regions)
    show_questions(console, findings.questions)
    _show_cluster(console, findings.cluster)
    show_peers(console, findings.peers)


def _show_cluster(console: Console, rates: Sequence[EntryRate]) -> None:
    if not rates:
        return
    columns = ("agents", "entries/s", "time of an entry, to the fewest agents", "entries/s, all looked at")
    table = Table(*columns, title="entries of a cluster's log applied, in a second of one processor")
    for each in rates:
        table.add_row(
            f"{each.agents:,}", f"{each.per_s:,.0f}", f"{each.ratio:.2f}", f"{each.whole_per_s:,.0f}"
        )
    console.print(table)


def _show_soak(console: Console, runs: Sequence[SoakRun]) -> None:
    columns = (
        "process",
        "at step",
        "processes",
        "MB",
        "descriptors",
        "threads",
        "sockets",
        "MB by 1,000 steps, later half",
    )
    for run in runs:
        rate = f"{run.steps:,} steps in {run.seconds:,.0f} s, {run.killed} workers killed"
        table = Table(*columns, title=f"what a long run leaves behind, {run.what}: {rate}")
        for growth in run.growth:
            looks = growth.looks
            for look in (looks[len(looks) // 10], looks[len(looks) // 2], looks[-1]):
                counts = (look.processes, look.descriptors, look.threads, look.sockets)
                processes, *rest = (str(each) for each in counts)
                slope = f"{growth.per_1000_steps('rss_bytes') / 1e6:+.3f}" if look is looks[-1] else ""
                table.add_row(
                    growth.kind, f"{look.step:,}", processes, f"{look.rss_bytes / 1e6:,.1f}", *rest, slope
                )
        console.print(table)


def _show_exchange(console: Console, costs: Sequence[ExchangeCost]) -> None:
    table = Table(
        *("workload", "records a step", "way", "ms", "times as long"),
        title="rows that meet across two nodes, from step to step",
    )
    for each in costs:
        figures = (f"{each.step_records:,}", each.way, _spread(each.step_ms), f"{each.times_as_long:.2f}")
        table.add_row(each.workload, *figures)
    if costs:
        console.print(table)


def _show_shards(console: Console, costs: Sequence[ShardCost]) -> None:
    table = Table(
        *("shards", "owned", "ms a step", "times as long", "ms for each not owned"),
        title="what shards cost a node that does not own them",
    )
    for each in costs:
        cost = "" if each.not_owned_ms is None else f"{each.not_owned_ms:.2f}"
        table.add_row(
            str(each.shards), str(each.owned), _spread(each.step_ms), f"{each.times_as_long:.2f}", cost
        )
    if costs:
        console.print(table)


def _show_planning(console: Console, gains: Sequence[PlanningGain]) -> None:
    if gains:
        columns = ("workload", "records a step", "planned once", "planned for each step", "times as long")
        table = Table(*columns, title="ms from step to step (median, least to greatest)")
        for each in gains:
            spreads = (_spread(each.once), _spread(each.each_step))
            table.add_row(each.workload, f"{each.step_records:,}", *spreads, f"{each.ratio:.2f}")
        console.print(table)


def _show_settings(console: Console, gains: Sequence[SettingGain]) -> None:
    if gains:
        columns = (
            "otherwise",
            "workload",
            "records a step",
            "as kcontrol has it",
            "otherwise",
            "times as long",
        )
        table = Table(*columns, title="ms from step to step (medians) with one of Spark's settings otherwise")
        for each in gains:
            times = (f"{each.chosen_ms:,.0f}", f"{each.otherwise_ms:,.0f}", f"{each.ratio:.2f}")
            table.add_row(each.otherwise, each.workload, f"{each.step_records:,}", *times)
        console.print(table)


def _show_comparisons(console: Console, title: str, compared: Iterable[Comparison]) -> None:
    table = Table(
        "workload", "records a step", "Spark 4.0 + connector", "kcontrol", "times as fast", title=title
    )
    for each in compared:
        ratio = f"{each.ratio:.2f}" if each.ratio is not None else "-"
        table.add_row(
            each.workload, f"{each.step_records:,}", _spread(each.spark), _spread(each.kcontrol), ratio
        )
    console.print(table)


def _phases_by_key(phases: Steady) -> list[dict[str, str | int | float]]:
    return [
        {"workload": workload, "step_records": records, **_phase_medians(found)}
        for (workload, records), found in phases.items()
    ]


def _show_phases(console: Console, title: str, phases: Steady) -> None:
    table = Table("workload", "records a step", *PHASES, title=title)
    for (workload, records), found in phases.items():
        if found:
            table.add_row(workload, f"{records:,}", *_phase_figures(found))
    console.print(table)


def _show_startup(console: Console, startup: Sequence[StartUp]) -> None:
    columns = ("steps in the log", "coordinator", "reading from the checkpoint", "reading all")
    table = Table(*columns, title="start-up, ms (median, least to greatest)")
    for each in startup:
        table.add_row(
            f"{each.steps:,}", _spread(each.coordinator), _spread(each.reading), _spread(each.whole)
        )
    if startup:
        console.print(table)


def _show_rest(console: Console, rest: RestEffect) -> None:
    columns = ("requests/s", "ms a step without", "ms a step with", "ratio", "median ms of an answer", "99 %")
    table = Table(*columns, title="REST under load: steps of 1,000 records (medians of blocks of steps)")
    answered = (max(getattr(each, name) for each in rest.requests) for name in ("median_ms", "p99_ms"))
    figures = (
        _spread(rest.without),
        _spread(rest.with_requests),
        f"{rest.ratio:.3f}",
        *(f"{each:.1f}" for each in answered),
    )
    table.add_row(f"{rest.per_second:g}", *figures)
    console.print(table)


def _show_nodes(console: Console, runs: Sequence[ScaleRun]) -> None:
    scale = ("nodes", "partitions", "records a step")
    times = Table(
        *scale,
        "ms from step to step",
        "times as long",
        "records/s",
        title="nodes and partitions (medians over steps)",
    )
    spent = Table(*scale, *PHASES, title="where the time of their steps goes, ms (medians)")
    for each in scaled(runs):
        which = (str(each.scale.nodes), str(each.scale.partitions), f"{each.step_records:,}")
        times.add_row(
            *which, _spread(each.step_ms), f"{each.times_as_long:.2f}", f"{each.records_per_s:,.0f}"
        )
        figures = (f"{ms:.0f}" for ms in (each.record_ms, each.open_ms, each.work_ms, each.commit_ms))
        spent.add_row(*which, *figures, f"{each.control_ms:.0f} = {100 * each.control_share:.1f} %")
    if runs:
        console.print(times)
        console.print(spent)


def _show_saving(console: Console, saving: Sequence[SavingCost]) -> None:
    columns = (
        "records a step",
        "steps",
        "without",
        "with checkpoints",
        "times as long",
        "checkpoints",
        "MB each",
        "s each",
    )
    table = Table(*columns, title="checkpoints and step time, ms (median, 99th percentile)")
    for each in saving:
        table.add_row(
            *(
                f"{each.step_records:,}",
                f"{each.without.count}, {each.with_.count}",
                _tail(each.without),
                _tail(each.with_),
            ),
            *(f"{each.times_as_long:.2f}, {each.p99_times_as_long:.2f}", str(each.checkpoints)),
            *(f"{each.size_bytes.median / 1e6:.1f}", f"{each.took_ms.median / 1e3:.2f}"),
        )
    if saving:
        console.print(table)


def _show_latency(console: Console, found: Sequence[Latency]) -> None:
    if not found:
        return
    title = f"from producer to read_committed consumer at {found[0].records_per_s:,} records/s, ms"
    table = Table("", "records", "median", "99th percentile", "greatest", title=title)
    for name, tail in (
        ("without a pipeline", found[0].direct),
        *((each.workload, each.piped) for each in found),
    ):
        table.add_row(
            name, f"{tail.count:,}", *(f"{each:,.1f}" for each in (tail.median, tail.p99, tail.greatest))
        )
    console.print(table)
    title = "the steps meanwhile, ms (medians)"
    table = Table("", "steps", "records a step", "ms from step to step", *PHASES, title=title)
    for each in found:
        table.add_row(
            each.workload,
            f"{each.steps:,}",
            f"{each.step_records:,.0f}",
            _spread(each.step_ms),
            *_phase_figures(each.phases),
        )
    console.print(table)


def _show_memory(console: Console, memory: Sequence[MemoryUse]) -> None:
    kinds = list(dict.fromkeys(kind for each in memory for kind in each.peaks))
    table = Table(
        "workload",
        "records a step",
        "s a step",
        *kinds,
        title="memory at its peak, MB: one process (processes: all together)",
    )
    for each in memory:
        figures = (_peak(each.peaks.get(kind)) for kind in kinds)
        table.add_row(each.workload, f"{each.step_records:,}", f"{each.step_ms / 1_000:.1f}", *figures)
    if memory:
        console.print(table)


def _show_profile(console: Console, profile: Profile) -> None:
    columns = ("part", "records/s", "MB/s", "us of processor a record", "broker's")
    table = Table(
        *columns, title=f"parts alone, {profile.parts[0].records:,} records, one process without Spark"
    )
    for part in profile.parts:
        broker_us = 1e6 * part.broker_cpu_s / part.records
        speeds = (f"{part.records_per_s:,.0f}", f"{part.bytes / part.seconds / 1e6:,.0f}")
        table.add_row(part.part, *speeds, f"{part.cpu_us_per_record:.2f}", f"{broker_us:.2f}")
    console.print(table)
    kinds = list(dict.fromkeys(kind for share in profile.shares for kind in share.cpu_s))
    title = "us of processor a record, by kind of process, of whole steps"
    table = Table("workload", "records a step", "records/s", *kinds, "all", "processors busy", title=title)
    for share in profile.shares:
        spent = [1e6 * share.cpu_s.get(kind, 0.0) / share.records for kind in kinds]
        busy = sum(share.cpu_s.values()) / share.seconds
        figures = (
            f"{share.records / share.seconds:,.0f}",
            *(f"{each:.2f}" for each in (*spent, sum(spent), busy)),
        )
        table.add_row(share.workload, f"{share.step_records:,}", *figures)
    console.print(table)


def _peak(peak: Peak | None) -> str:
    if peak is None:
        return "-"
    one = f"{peak.one_bytes / 1e6:,.0f}"
    return one if peak.processes == 1 else f"{one}  ({peak.processes}: {peak.together_bytes / 1e6:,.0f})"


def _phase_medians(found: Sequence[Phases]) -> dict[str, float]:
    names = ("record_ms", "open_ms", "work_ms", "commit_ms", "control_ms", "control_share")
    return {name: median(getattr(each, name) for each in found) for name in names} if found else {}


def _phase_figures(found: Sequence[Phases]) -> list[str]:
    """For the columns of `PHASES`."""
    medians = _phase_medians(found)
    figures = [f"{medians[name]:.0f}" for name in ("record_ms", "open_ms", "work_ms", "commit_ms") if medians]
    control = f"{medians['control_ms']:.0f}, {100 * medians['control_share']:.1f} %" if medians else ""
    return [*figures, control] if medians else ["-"] * len(PHASES)


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.median:,.0f}  ({spread.least:,.0f} to {spread.greatest:,.0f})"


def _tail(tail: Tail) -> str:
    return f"{tail.median:,.0f}, {tail.p99:,.0f}"
