"""`python -m tests.simulation.regions --schedules 10000 --seed 1`: many schedules of a region's state machine, as many
of drains, and for every twentieth seed one of controllers, on all cores.

Ends with 1 at the first violation, after one line that reproduces it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.invariants import Violation
from tests.simulation.regions.controllers import RegionWorld
from tests.simulation.regions.schedule import RegionSchedule
from tests.simulation.regions.waves import DrainSchedule

_CHUNK = 100
_CONTROLLERS_EVERY = 20
"""Their schedules take a hundred times as long: of so many seeds, one."""


def run_chunk(seeds: range) -> tuple[Counter[str], str]:
    """What happened, and the first violation with the line that reproduces it, or ''."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            if seed % _CONTROLLERS_EVERY == 0:
                RegionWorld(seed, controllers := Counter[str]()).run()
                for name, count in controllers.items():
                    counts[f"controllers: {name}"] += count
        except Violation as violation:
            return counts, f"{violation}\nreproduce with: {_line(seed)}"
        for one in (RegionSchedule(seed), DrainSchedule(seed)):
            try:
                one.run()
            except Violation as violation:
                return counts, f"{violation}\nreproduce with: {_line(seed)}"
            for name, count in one.counts.items():
                counts[f"{'region' if isinstance(one, RegionSchedule) else 'drains'}: {name}"] += count
    return counts, ""


def _line(seed: int) -> str:
    return f"python -m tests.simulation.regions --schedules 1 --seed {seed}"


def main(arguments: list[str]) -> int:
    """Run, print, and say whether all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.regions", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.schedules)
    chunks = [seeds[begin : begin + _CHUNK] for begin in range(0, len(seeds), _CHUNK)]
    began, happened = time.monotonic(), Counter[str]()
    with ProcessPoolExecutor(options.processes) as pool:
        for future in as_completed([pool.submit(run_chunk, chunk) for chunk in chunks]):
            counts, violation = future.result()
            if violation:
                _say(violation)
                pool.shutdown(cancel_futures=True)
                return 1
            happened += counts
    for name, count in sorted(happened.items()):
        _say(f"{count:10}  {name}")
    seconds = time.monotonic() - began
    _say(f"{len(seeds)} schedules of each from seed {options.seed}, {seconds:.1f} s, every invariant held")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
