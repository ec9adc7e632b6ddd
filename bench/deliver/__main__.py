"""`python -m bench.deliver`: the same rows of Kafka into a table, by `kcontrol deliver` and by Spark's foreachBatch, in turns,
both exactly once: rows/s and steps/s out of a backlog, and how many times kcontrol is as fast.

Spark: from topic to table. kcontrol, whole: from topic to table by a pipeline, its output topic and a delivery, all at once;
alone: the delivery out of a backlog of committed steps. A run whose table does not hold each row once has no figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict

from confluent_kafka import KafkaException
from rich import box
from rich.console import Console
from rich.table import Table

from bench.deliver import rows
from bench.deliver.delta import delta_tables
from bench.deliver.figures import ALONE, SPARK, WHOLE, Compared, Rates, sides
from bench.deliver.kcontrol_side import forget, run_alone, run_whole
from bench.deliver.plan import CASES, DELTA, PARTITIONS, POSTGRES, QUICK_SIZES, SIZES, Case, Size
from bench.deliver.postgres import postgres_tables
from bench.deliver.spark_side import LOCK, run_spark
from bench.deliver.tables import Tables, TargetMissingError
from bench.plan import alternating
from bench.spark_environment import SparkEnvironment, prepare
from bench.topics import create_topics, delete_topics
from kcontrol.adapters.kafka.embedded import EmbeddedBroker

FAILURES = (RuntimeError, KafkaException, OSError, subprocess.SubprocessError)
KCONTROL = "kcontrol"
MADE: dict[str, Callable[[], AbstractContextManager[Tables]]] = {
    POSTGRES: postgres_tables,
    DELTA: delta_tables,
}
WIDTH = 160
"""Of the table, wherever it goes: each of its rows is a line."""
TITLES = {SPARK: "Spark, foreachBatch", WHOLE: "kcontrol, pipeline and delivery", ALONE: "kcontrol, delivery"}


def main() -> int:
    """Exit code 0 when everything that was asked for was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.deliver", description=__doc__)
    parser.add_argument("--only", choices=tuple(MADE), help="one kind of table")
    parser.add_argument("--repeats", type=int, help="of each run; 2 by default, 1 if quick")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, and no figures")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    console = Console(stderr=True)
    sizes = QUICK_SIZES if options.quick else SIZES
    repeats = options.repeats or (1 if options.quick else 2)
    environment = prepare(LOCK, "spark-deliver")
    found: list[Compared] = []
    left_out = 0
    with EmbeddedBroker(None) as broker:
        for target in [options.only] if options.only else MADE:
            try:
                with MADE[target]() as tables:
                    bench = _Bench(environment, broker.bootstrap_servers, tables, console)
                    found += [
                        bench.compare(case, size, repeats)
                        for case in CASES
                        for size in sizes
                        if case.target == target
                    ]
            except TargetMissingError as error:
                console.print(f"{target} is left out. {error}")
                left_out += 1
    if options.json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        _show(Console(width=WIDTH), found)
    return int(bool(left_out) or any(each.failed for each in found))


class _Bench:
    """Of one kind of table."""

    def __init__(self, environment: SparkEnvironment, servers: str, tables: Tables, console: Console) -> None:
        self._environment, self._servers, self._tables = environment, servers, tables
        self._console = console

    def compare(self, case: Case, size: Size, repeats: int) -> Compared:
        """In turns: Spark, kcontrol, kcontrol, Spark, ... A run that fails has a sentence instead of a figure."""
        source = f"bench-deliver-{uuid.uuid4().hex[:8]}"
        create_topics(self._servers, source, partitions=PARTITIONS)
        rows.write(self._servers, source, 0, size.rows, PARTITIONS, size.step_rows)
        taken: list[tuple[str, Rates]] = []
        failed: list[str] = []
        for side in alternating((SPARK, KCONTROL), repeats):
            try:
                if side == SPARK:
                    where = self._servers, source, self._tables, case, size
                    self._take(taken, case, size, SPARK, run_spark(self._environment, *where))
                else:
                    self._kcontrol(taken, case, size)
            except FAILURES as error:
                failed.append(f"{side}, {case.target} {case.mode}, {size.step_rows:,} rows a step: {error}")
                self._console.print(f"no figure of {failed[-1]}", markup=False)
        delete_topics(self._servers, source)
        return Compared(case.target, case.mode, size.step_rows, sides(taken), tuple(failed))

    def _kcontrol(self, taken: list[tuple[str, Rates]], case: Case, size: Size) -> None:
        whole, log = run_whole(self._servers, self._tables, case.mode, size)
        self._take(taken, case, size, WHOLE, whole)
        try:
            alone = run_alone(self._servers, self._tables, case.mode, size, log)
        finally:
            forget(self._servers, log)
        self._take(taken, case, size, ALONE, alone)

    def _take(self, taken: list[tuple[str, Rates]], case: Case, size: Size, side: str, found: Rates) -> None:
        taken.append((side, found))
        what = f"{case.target} {case.mode}, {size.step_rows:,} rows a step"
        rate = f"{found.rows_per_s:,.0f} rows/s, {found.steps_per_s:,.1f} steps/s"
        self._console.print(f"{what}, {TITLES[side]}: {rate}")


def _show(console: Console, found: Sequence[Compared]) -> None:
    columns = ("table", "rows of a step", "side", "rows/s", "steps/s", "times as fast as Spark")
    # As it goes into docs/performance.md.
    table = Table(*columns, box=box.MARKDOWN)
    for each in found:
        for side in each.sides:
            table.add_row(
                f"{each.target} {each.mode}",
                f"{each.step_rows:,}",
                TITLES[side.side],
                f"{side.rows_per_s.median:,.0f}",
                f"{side.steps_per_s.median:,.1f}",
                "" if side.side == SPARK or side.times_as_fast is None else f"{side.times_as_fast:.2f}",
            )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
