"""`python -m bench`: Spark's own source and sink and kcontrol, in turns, on the same topic of the same
broker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench import plan, topics
from bench.checkpoints import measure_checkpoints
from bench.cluster import measure_entries
from bench.exchange import measure_exchange
from bench.hosts.measure import measure_hosts
from bench.kcontrol_side import run_kcontrol
from bench.latency import measure_latency
from bench.layout.measure import measure_layout
from bench.memory import measure_memory
from bench.nodes import ScaleRun, measure_nodes
from bench.peers import plan as peer_plan
from bench.peers.measure import FIGURES, NAMES, contenders, measure_peers
from bench.peers.peer import WORKLOADS
from bench.planning import measure_planning
from bench.processor import measure_profile
from bench.questions.measure import measure_questions
from bench.recovery import CASES, measure_recovery
from bench.regions.measure import measure_regions
from bench.report import Findings, show, to_json
from bench.rest import measure_rest
from bench.settings import measure_settings
from bench.shards import measure_shards
from bench.soak import measure_soak
from bench.spark_environment import prepare
from bench.spark_side import run_spark
from bench.startup import QUICK_SIZES, SIZES, measure_startup
from bench.steady import measure_steady
from kcontrol.adapters.kafka.embedded import EmbeddedBroker

PARTITIONS = CORES = 2
SIDES = ("spark", "kcontrol")
BOTH = "sides"
"""The part that compares them."""
PARTS = (
    "recovery",
    "hosts",
    "startup",
    "nodes",
    "steady",
    "exchange",
    "shards",
    "layout",
    "checkpoints",
    "latency",
    "memory",
    "rest",
    "profile",
    "planning",
    "settings",
    "soak",
    "regions",
    "questions",
    "cluster",
)
PEERS = "peers"
"""The part that needs other programs, so only when it is asked for."""
SOURCE = "records"
TABLE_COLUMNS = 120


def _options() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small steps and few of them: to see that it works"
    )
    parser.add_argument(
        "--only", choices=(BOTH, *SIDES, *PARTS, PEERS), help="one part alone, or one side of the first"
    )
    parser.add_argument(
        "--killed",
        choices=CASES,
        action="append",
        help="of the part `recovery`, only what is killed here; may be given again",
    )
    for name, choices in (("peer", NAMES), ("workload", WORKLOADS), ("figure", FIGURES)):
        parser.add_argument(
            f"--{name}", action="append", choices=choices, help="of part `peers`; may be given more than once"
        )
    parser.add_argument(
        "--warm-up",
        type=float,
        metavar="S",
        help="of part `peers`, seconds of the stream before latency counts",
    )
    parser.add_argument("--nodes", type=int, help="of the clusters of `nodes` those with so many")
    _add_layout_options(parser)
    _add_host_options(parser)
    parser.add_argument(
        "--repeats",
        type=int,
        default=2,
        help="runs of each workload on each side; of part `exchange`, in each way",
    )
    parser.add_argument("--data-dir", type=Path, help="for the broker; default: a temporary directory")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def _add_layout_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-mb",
        type=float,
        default=plan.CHANGING.state_mb,
        help="of part `layout`, about how much state there is",
    )
    parser.add_argument(
        "--path",
        type=int,
        nargs="+",
        choices=range(1, plan.MOST_NODES + 1),
        metavar="N",
        help="of part `layout`, the numbers of nodes, once, one after the other: 3 2 4. It begins with one",
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=plan.EVEN_SHARDS,
        metavar="N",
        help="of part `layout` with a path, of the state; as many for each node, whether two, three or four, if not given",
    )


def _add_host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, metavar="N", help="of part `hosts`, how many hosts are killed")
    parser.add_argument(
        "--standby",
        type=int,
        default=0,
        metavar="N",
        help="of part `hosts`, processes that stand by for the node",
    )
    parser.add_argument(
        "--beat-ms", type=int, metavar="MS", help="of part `hosts`, between two beats of an agent"
    )
    parser.add_argument(
        "--checkpoint-every",
        default=plan.DYING.checkpoint_every,
        metavar="TIME",
        help="of part `hosts`, from one checkpoint to the next",
    )


def _dying(options: argparse.Namespace) -> plan.Dying:
    """What the part `hosts` does."""
    asked = plan.QUICK_DYING if options.quick else plan.DYING
    kills = asked.kills if options.kills is None else options.kills
    return replace(
        asked,
        kills=kills,
        standbys=options.standby,
        beat_ms=options.beat_ms,
        checkpoint_every=options.checkpoint_every,
    )


def _changing(options: argparse.Namespace) -> plan.Changing:
    """What the part `layout` does."""
    asked = plan.QUICK_CHANGING if options.quick else plan.CHANGING
    if options.path is not None:
        asked = replace(
            asked, path=tuple(options.path), rounds=1, partitions=plan.MOST_NODES, shards=options.shards
        )
    return replace(asked, state_mb=options.state_mb)


def main() -> int:
    """Exit code 0 when everything was measured."""
    options = _options()
    # Progress goes to standard error, so that --json leaves nothing but JSON on standard output.
    console = Console(stderr=True)
    measurements = (*plan.QUICK_LARGE, *plan.QUICK_SMALL) if options.quick else (*plan.LARGE, *plan.SMALL)
    findings = Findings()
    if options.only in (None, BOTH, *SIDES):
        sides = (options.only,) if options.only in SIDES else SIDES
        with EmbeddedBroker(options.data_dir) as broker:
            places = plan.Places(broker.bootstrap_servers, SOURCE, PARTITIONS, CORES)
            compare(console, findings, places, measurements, sides, 1 if options.quick else options.repeats)
    for part in PARTS:
        if options.only in (None, part):
            console.print(part)
            if not _measured_alone(
                part, console, findings, options.quick, options.killed or CASES, _dying(options)
            ):
                measure(
                    part,
                    console,
                    findings,
                    options.data_dir,
                    options.quick,
                    nodes=options.nodes,
                    changing=_changing(options),
                    repeats=options.repeats,
                )
    if options.only == PEERS:
        sizes = peer_plan.QUICK if options.quick else peer_plan.FULL
        with EmbeddedBroker(options.data_dir) as broker:
            findings.peers = measure_peers(
                broker.bootstrap_servers,
                sizes if options.warm_up is None else sizes.warmed_up_for(options.warm_up),
                contenders(options.peer or NAMES),
                console.print,
                options.workload or WORKLOADS,
                options.figure or FIGURES,
            )
    large = measurements[0].step_records
    if options.json:
        print(to_json(findings, large))
    else:
        show(Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS), findings, large)
    return 1 if any(each.failed for each in findings.peers) else 0


def measure(
    part: str,
    console: Console,
    findings: Findings,
    data_dir: Path | None,
    quick: bool,
    *,
    nodes: int | None = None,
    changing: plan.Changing = plan.CHANGING,
    repeats: int = 2,
) -> None:
    """One part by its name, on a broker of its own. nodes, repeats: see `_options`."""
    with EmbeddedBroker(data_dir) as broker:
        servers = broker.bootstrap_servers
        match part:
            case "startup":
                findings.startup = measure_startup(
                    servers, QUICK_SIZES if quick else SIZES, 1 if quick else 3
                )
            case "nodes":
                findings.scales = _scales(servers, console, quick, nodes)
            case "steady":
                findings.steady = measure_steady(
                    servers, plan.QUICK_STEADY if quick else plan.STEADY, console.print
                )
            case "exchange":
                measurements = plan.QUICK_EXCHANGING if quick else plan.EXCHANGING
                findings.exchange = measure_exchange(
                    servers, measurements, 1 if quick else repeats, console.print
                )
            case "layout":
                findings.layouts = measure_layout(servers, changing, console.print)
            case "checkpoints":
                saving = plan.QUICK_SAVING if quick else plan.SAVING
                findings.saving = measure_checkpoints(servers, saving, console.print)
            case "latency":
                stream = plan.QUICK_STREAM if quick else plan.STREAM
                findings.latency = measure_latency(servers, stream, console.print)
            case "memory":
                sizes = plan.QUICK_MEMORY if quick else plan.MEMORY
                findings.memory = measure_memory(servers, sizes, console.print)
            case "profile":
                measurements = plan.QUICK_LARGE if quick else plan.PROFILED
                findings.profile = measure_profile(servers, broker.pid, measurements, console.print)
            case "planning":
                measurements = plan.QUICK_PLANNING if quick else plan.PLANNING
                findings.planning = measure_planning(servers, measurements, 1 if quick else 2, console.print)
            case "settings":
                measurements = plan.QUICK_SETTINGS if quick else plan.SETTINGS
                findings.settings = measure_settings(servers, measurements, console.print)
            case "soak":
                findings.soak = measure_soak(servers, plan.QUICK_SOAK if quick else plan.SOAK, console.print)
            case "regions":
                findings.regions = measure_regions(servers, quick, console.print)
            case "questions":
                findings.questions = measure_questions(servers, quick, console.print)
            case "rest":
                findings.rest = measure_rest(servers, PARTITIONS, CORES, quick=quick)


def _measured_alone(
    part: str, console: Console, findings: Findings, quick: bool, killed: Sequence[str], dying: plan.Dying
) -> bool:
    """Whether it is a part that needs no broker, or has its own; it is measured then."""
    match part:
        case "recovery":
            findings.recovery_ms = measure_recovery(1 if quick else 3, seed=1, cases=killed)
        case "hosts":
            findings.hosts = measure_hosts(dying, console.print)
        case "shards":
            findings.shards = measure_shards(plan.QUICK_OWNING if quick else plan.OWNING, console.print)
        case "cluster":
            sizes = plan.QUICK_CLUSTERS if quick else plan.CLUSTERS
            findings.cluster = measure_entries(sizes.agents, sizes.entries, sizes.whole, console.print)
        case _:
            return False
    return True


def _scales(servers: str, console: Console, quick: bool, nodes: int | None) -> list[ScaleRun]:
    scales, steps = (plan.QUICK_SCALES, plan.QUICK_SCALE_STEPS) if quick else (plan.SCALES, plan.SCALE_STEPS)
    wanted = tuple(each for each in scales if nodes in (None, each.nodes))
    return measure_nodes(servers, wanted, steps, console.print)


def compare(
    console: Console,
    findings: Findings,
    places: plan.Places,
    measurements: tuple[plan.Measurement, ...],
    sides: tuple[str, ...],
    repeats: int,
) -> None:
    """Fill the source, then run every measurement on every side, in turns."""
    records = max(measurement.records for measurement in measurements)
    environment = prepare() if "spark" in sides else None
    console.print(f"filling the source with {records:,} records of {topics.VALUE_BYTES} bytes")
    topics.create_topics(places.bootstrap_servers, SOURCE, partitions=places.partitions)
    topics.fill(places.bootstrap_servers, SOURCE, records, places.partitions)
    for measurement in measurements:
        for side in plan.alternating(sides, repeats):
            if side == "spark" and environment is not None:
                run = run_spark(environment, places, measurement)
            else:
                found = run_kcontrol(places, measurement)
                run = found.run
                findings.phases.setdefault((measurement.workload, measurement.step_records), []).extend(
                    found.phases
                )
            findings.runs.append(run)
            console.print(
                f"{side:<9} {run.workload:<12} {run.step_records:>9,} a step: "
                f"{run.records_per_s:>9,.0f} records/s"
            )


if __name__ == "__main__":
    sys.exit(main())
