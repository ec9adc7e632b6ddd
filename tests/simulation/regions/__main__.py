"""`python -m tests.simulation.regions --schedules 10000 --seed 1`: many schedules of a region's state machine, as many
of drains, and for every twentieth seed one of controllers, on all cores. `--only` has one kind of them alone.

Says every half minute how far it is, on standard error. Ends with 1 at the first violation, after one line that reproduces it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from tests.simulation.invariants import Violation
from tests.simulation.regions.controllers import RegionWorld
from tests.simulation.regions.schedule import RegionSchedule
from tests.simulation.regions.waves import DrainSchedule

_CHUNK = 100
_CONTROLLERS_EVERY = 20
"""Their schedules take a hundred times as long: of so many seeds, one."""
_PROGRESS_S = 30.0


def _region(seed: int) -> Counter[str]:
    (one := RegionSchedule(seed)).run()
    return one.counts


def _drains(seed: int) -> Counter[str]:
    (one := DrainSchedule(seed)).run()
    return one.counts


def _controllers(seed: int) -> Counter[str]:
    RegionWorld(seed, counts := Counter[str]()).run()
    return counts


_KINDS: dict[str, Callable[[int], Counter[str]]] = {
    "controllers": _controllers,
    "region": _region,
    "drains": _drains,
}


def run_chunk(kinds: Sequence[str], seeds: range) -> tuple[Counter[str], str]:
    """What happened, and the first violation with the line that reproduces it, or ''. kinds: to run of each seed; of several,
    controllers have one seed in twenty."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        for kind in kinds:
            if kind == "controllers" and len(kinds) > 1 and seed % _CONTROLLERS_EVERY:
                continue
            try:
                counts = _KINDS[kind](seed)
            except Violation as violation:
                line = f"python -m tests.simulation.regions --schedules 1 --seed {seed} --only {kind}"
                return happened, f"{violation}\nreproduce with: {line}"
            for name, count in counts.items():
                happened[f"{kind}: {name}"] += count
    return happened, ""


def main(arguments: list[str]) -> int:
    """Run, print, and say whether all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.regions", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=tuple(_KINDS))
    options = parser.parse_args(arguments)
    kinds = tuple(_KINDS) if options.only is None else (options.only,)
    seeds = range(options.seed, options.seed + options.schedules)
    chunks = [seeds[begin : begin + _CHUNK] for begin in range(0, len(seeds), _CHUNK)]
    began, happened = time.monotonic(), Counter[str]()
    said, done = began, 0
    with ProcessPoolExecutor(options.processes) as pool:
        for future in as_completed(list(map(partial(pool.submit, run_chunk, kinds), chunks))):
            counts, violation = future.result()
            if violation:
                _say(violation)
                pool.shutdown(cancel_futures=True)
                return 1
            happened += counts
            done += 1
            if time.monotonic() - said > _PROGRESS_S:
                said = time.monotonic()
                sys.stderr.write(f"{done * _CHUNK} of {len(seeds)} seeds, {said - began:.0f} s\n")
    for name, count in sorted(happened.items()):
        _say(f"{count:10}  {name}")
    seconds = time.monotonic() - began
    each = "each kind" if options.only is None else options.only
    _say(f"{len(seeds)} schedules of {each} from seed {options.seed}, {seconds:.1f} s, every invariant held")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
