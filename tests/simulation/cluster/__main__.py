"""`python -m tests.simulation.cluster --schedules 10000 --seed 1`: many schedules of a cluster, on all cores.

Ends with 1 at the first violation, after one line that reproduces it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.cluster.faults import FAULTS
from tests.simulation.cluster.schedule import ClusterSchedule
from tests.simulation.invariants import Violation

_CHUNK = 50


def run_chunk(seeds: range, likely: tuple[str, ...] = ()) -> tuple[Counter[str], Counter[str], str]:
    """Faults, what happened, and the first violation with the line that reproduces it, or ''."""
    done: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    wanted = [fault for fault in FAULTS if fault.__name__ in likely]
    for seed in seeds:
        schedule = ClusterSchedule(seed, wanted)
        try:
            schedule.run()
        except Violation as violation:
            more = f" --likely {','.join(likely)}" if likely else ""
            line = f"python -m tests.simulation.cluster --schedules 1 --seed {seed}{more}"
            return done, happened, f"{violation}\nreproduce with: {line}"
        done += schedule.done
        happened += schedule.world.counts
    return done, happened, ""


def main(arguments: list[str]) -> int:
    """Run, print, and say whether all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--likely", default="", metavar="FAULT,...", help="faults that every schedule has")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", action="store_true", help="do not print what was covered")
    options = parser.parse_args(arguments)
    likely = tuple(filter(None, options.likely.split(",")))
    seeds = range(options.seed, options.seed + options.schedules)
    chunks = [seeds[begin : begin + _CHUNK] for begin in range(0, len(seeds), _CHUNK)]
    began = time.monotonic()
    done, happened = Counter[str](), Counter[str]()
    with ProcessPoolExecutor(options.processes) as pool:
        for future in as_completed([pool.submit(run_chunk, chunk, likely) for chunk in chunks]):
            more, some, violation = future.result()
            if violation:
                _say(violation)
                pool.shutdown(cancel_futures=True)
                return 1
            done += more
            happened += some
    if not options.quiet:
        for title, counts in (("faults", done), ("entries and events", happened)):
            _say(f"--- {title}")
            for name, count in sorted(counts.items()):
                _say(f"{count:10}  {name}")
    seconds = time.monotonic() - began
    _say(f"{len(seeds)} schedules from seed {options.seed}, {seconds:.1f} s, every invariant held")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
