"""Spark's side: its own process with one streaming query, see `spark_app.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.deliver import rows
from bench.deliver.figures import Rates, committed, rates, without_rest
from bench.deliver.plan import CORES, Case, Size
from bench.deliver.tables import Tables
from bench.spark_environment import SparkEnvironment
from bench.spark_side import said_by

APP = Path(__file__).with_name("spark_app.py")
LOCK = Path(__file__).with_name("requirements-spark.lock")


def run_spark(
    environment: SparkEnvironment,
    bootstrap_servers: str,
    source: str,
    tables: Tables,
    case: Case,
    size: Size,
) -> Rates:
    """Out of a backlog of all rows in the topic. Raises RuntimeError with what Spark said when it fails."""
    table = tables.new(case.mode)
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as scratch:
        options = {
            "bootstrap-servers": bootstrap_servers,
            "source": source,
            "target": case.target,
            "mode": case.mode,
            "to": table.to,
            "checkpoint": f"{scratch}/checkpoint",
            "ivy": environment.ivy,
            "step-rows": size.step_rows,
            "cores": CORES,
        }
        command = [
            str(environment.python),
            str(APP),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        batches = said_by(command, f"Spark's side of {case.target} {case.mode}", tables.environment)
    rows.check(case.mode, size.rows, size.step_rows, *table.columns())
    commits = committed(table.moments_ms(), [int(str(batch["records"])) for batch in batches])
    return rates(without_rest(commits, size.step_rows), size.warm_up)
