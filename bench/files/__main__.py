"""`python -m bench.files`: NDJSON through kcontrol's input of files and through Spark's own file source, in turns: records/s
of both, and how many times kcontrol is as fast. With `--http` kcontrol is given the same lines by a web server.

A step of kcontrol holds as many bytes as a file has, a micro-batch of Spark one file. The first half of each is left out: of
20, what Spark's JVM runs is compiled by then on both sides. A run begins when what was written before it is on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from bench.figures import MeasuredStep, Run, throughput
from bench.files.runs import PATTERN, run_kcontrol, run_spark
from bench.files.served import serving
from bench.files.work import LINE_BYTES, write_files
from bench.plan import Places, alternating
from bench.spark_environment import prepare
from kcontrol.adapters.kafka.embedded import EmbeddedBroker

CORES = PARTITIONS = 2


def main() -> int:
    """Exit code 0 when everything was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.files", description=__doc__)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--lines", type=int, default=500_000, help="of each file")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--http", action="store_true", help="kcontrol's side reads them from a URL")
    options = parser.parse_args()
    console = Console(stderr=True)
    environment = prepare()
    runs: list[Run] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-files-") as scratch,
        EmbeddedBroker(None) as broker,
        ExitStack() as stack,
    ):
        directory = Path(scratch) / "files"
        directory.mkdir()
        console.print(f"writing {options.files} files of {options.lines * LINE_BYTES / 1e6:.0f} MB")
        write_files(directory, options.files, options.lines)
        lines = stack.enter_context(serving(_in_one(directory))) if options.http else str(directory)
        places = Places(broker.bootstrap_servers, "", PARTITIONS, CORES)
        for side in alternating(("spark", "kcontrol"), options.repeats):
            sink = f"bench-files-{uuid.uuid4().hex[:8]}"
            os.sync()
            if side == "spark":
                steps = _of_batches(run_spark(environment, places, directory, sink))
            else:
                steps = run_kcontrol(places, lines, sink, options.files, options.lines * LINE_BYTES)
            run = Run(
                side, "http" if options.http else "files", options.lines, tuple(steps[options.files // 2 :])
            )
            runs.append(run)
            console.print(f"{side:<9} {run.records_per_s:>9,.0f} records/s")
    print(json.dumps([asdict(each) for each in throughput(runs)]))
    return 0


def _in_one(directory: Path) -> Path:
    """All files, one behind the other."""
    whole = directory.parent / "all.ndjson"
    with whole.open("wb") as file:
        for each in sorted(directory.glob(PATTERN)):
            with each.open("rb") as part:
                shutil.copyfileobj(part, file)
    return whole


def _of_batches(batches: list[dict[str, object]]) -> list[MeasuredStep]:
    """Of each but the last, from its beginning to that of the next."""
    starts_ms = [datetime.fromisoformat(str(batch["started"])).timestamp() * 1_000 for batch in batches]
    return [
        MeasuredStep(int(str(batch["records"])), after - start, float(str(batch["duration_ms"])))
        for batch, (start, after) in zip(batches, pairwise(starts_ms), strict=False)
    ]


if __name__ == "__main__":
    sys.exit(main())
