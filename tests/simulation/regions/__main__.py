"""`python -m tests.simulation.regions --schedules 10000 --seed 1`: many schedules of a region's state machine, as many
of drains, and for every twentieth seed one of controllers, on all cores.

Ends with 1 at the first violation, after one line that reproduces it. How far it is, it says on stderr.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.invariants import Violation
from tests.simulation.regions.controllers import RegionWorld
from tests.simulation.regions.schedule import RegionSchedule
from tests.simulation.regions.waves import DrainSchedule
from tests.simulation.sessions.schedule import undisturbed

_CHUNK = 100
_PROGRESS_S = 10
_KINDS = {"fsm": ("region", RegionSchedule), "drains": ("drains", DrainSchedule)}
"""By what `--only` names them: what their counts are headed with."""


def run_chunk(seeds: range, only: str = "", controllers_every: int = 20) -> tuple[Counter[str], str]:
    """What happened, and the first violation with the line that reproduces it, or ''."""
    counts: Counter[str] = Counter()
    kinds = [only] if only else ["controllers", *_KINDS]
    with undisturbed():
        for seed in seeds:
            for kind in kinds:
                if kind == "controllers" and (not controllers_every or seed % controllers_every):
                    continue
                try:
                    counts.update(_run_one(kind, seed))
                except Violation as violation:
                    return counts, f"{violation}\nreproduce with: {_line(kind, seed)}"
    gc.collect()
    return counts, ""


def _run_one(kind: str, seed: int) -> dict[str, int]:
    """What happened, headed with what it happened to."""
    if kind == "controllers":
        head, counts = kind, Counter[str]()
        RegionWorld(seed, counts).run()
    else:
        head, schedule = _KINDS[kind][0], _KINDS[kind][1](seed)
        schedule.run()
        counts = schedule.counts
    return {f"{head}: {name}": count for name, count in counts.items()}


def _line(kind: str, seed: int) -> str:
    alone = "--controllers-every 1" if kind == "controllers" else f"--only {kind}"
    return f"python -m tests.simulation.regions --schedules 1 --seed {seed} {alone}"


def main(arguments: list[str]) -> int:
    """Run, print, and say whether all invariants held."""
    options = _options(arguments)
    seeds = range(options.seed, options.seed + options.schedules)
    chunks = [seeds[begin : begin + _CHUNK] for begin in range(0, len(seeds), _CHUNK)]
    began, happened = time.monotonic(), Counter[str]()
    done, said = 0, began
    with ProcessPoolExecutor(options.processes) as pool:
        submitted = [
            pool.submit(run_chunk, chunk, options.only, options.controllers_every) for chunk in chunks
        ]
        for future in as_completed(submitted):
            counts, violation = future.result()
            if violation:
                _say(violation)
                pool.shutdown(cancel_futures=True)
                return 1
            happened += counts
            done += _CHUNK
            if (now := time.monotonic()) - said > _PROGRESS_S:
                said = now
                sys.stderr.write(f"{min(done, len(seeds))} of {len(seeds)} seeds, {now - began:.0f} s\n")
    for name, count in sorted(happened.items()):
        _say(f"{count:10}  {name}")
    seconds = time.monotonic() - began
    what = options.only or "each"
    _say(f"{len(seeds)} schedules of {what} from seed {options.seed}, {seconds:.1f} s, every invariant held")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.regions", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--only",
        choices=sorted(_KINDS),
        default="",
        help="schedules of the state machine alone, or of drains",
    )
    parser.add_argument(
        "--controllers-every",
        type=int,
        default=20,
        metavar="N",
        help="a schedule of controllers, which takes a hundred times as long, for one seed of so many; 0: none",
    )
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
