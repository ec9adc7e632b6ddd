"""`python -m tests.simulation --schedules 100000 --seed 1`: many schedules on all cores, and what they
covered.

With `--sessions` they are schedules of the real sessions, each a hundred times as long. Ends with 1 at the
first violation, after one line that reproduces it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.coverage import all_transitions, counted
from tests.simulation.invariants import Violation
from tests.simulation.schedule import run_schedule, with_denials, with_epochs, with_replicas, with_stages
from tests.simulation.sessions.schedule import run_sessions

_CHUNK = 500
_CHUNK_OF_SESSIONS = 10


def run_chunk(
    seeds: range, progress_every: int = 1, sessions: bool = False
) -> tuple[int, Counter[str], Counter[str], str]:
    """Events, faults, transitions, and the first violation with the line that reproduces it, or ''."""
    run_one = _run_sessions if sessions else _run_cores
    faults: Counter[str] = Counter()
    transitions: Counter[str] = Counter()
    events = 0
    with counted(transitions):
        for seed in seeds:
            try:
                events += run_one(seed, faults, seed % progress_every == 0)
            except Violation as violation:
                how = "--sessions" if sessions else "--progress-every 1"
                line = f"python -m tests.simulation --schedules 1 {how} --seed {seed}"
                return events, faults, transitions, f"{violation}\nreproduce with: {line}"
    return events, faults, transitions, ""


def _run_cores(seed: int, faults: Counter[str], to_progress: bool) -> int:
    return run_schedule(
        seed,
        faults,
        to_progress,
        with_denials(seed),
        replicas=with_replicas(seed),
        epochs=with_epochs(seed),
        stages=with_stages(seed),
    ).decided()


def _run_sessions(seed: int, faults: Counter[str], to_progress: bool) -> int:
    return len(run_sessions(seed, faults, epochs=with_epochs(seed), stages=with_stages(seed)).fleet.trace)


def main(arguments: list[str]) -> int:
    """Run, print, and say whether all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--sessions", action="store_true", help="drive the real sessions; each schedule goes on to progress"
    )
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--progress-every",
        type=int,
        default=5,
        metavar="K",
        help="every K-th schedule goes on without faults until all input is committed; the others end with "
        "the faults",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", action="store_true", help="do not print what was covered")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.schedules)
    size = _CHUNK_OF_SESSIONS if options.sessions else _CHUNK
    chunks = [seeds[begin : begin + size] for begin in range(0, len(seeds), size)]
    began = time.monotonic()
    events, faults, transitions = 0, Counter[str](), Counter[str]()
    with ProcessPoolExecutor(options.processes) as pool:
        for future in as_completed(
            [pool.submit(run_chunk, chunk, options.progress_every, options.sessions) for chunk in chunks]
        ):
            more, some_faults, some_transitions, violation = future.result()
            if violation:
                _say(violation)
                pool.shutdown(cancel_futures=True)
                return 1
            events += more
            faults += some_faults
            transitions += some_transitions
    if not options.quiet:
        _print_coverage(faults, transitions)
    seconds = time.monotonic() - began
    _say(
        f"{len(seeds)} schedules from seed {options.seed}, {events} events, {seconds:.1f} s, every "
        "invariant held"
    )
    return 0


def _print_coverage(faults: Counter[str], transitions: Counter[str]) -> None:
    _say("--- faults")
    for name, count in sorted(faults.items()):
        _say(f"{count:10}  {name}")
    _say("--- transitions")
    for name in all_transitions():
        _say(f"{transitions[name]:10}  {name}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
