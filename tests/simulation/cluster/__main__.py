"""`python -m tests.simulation.cluster --schedules 1000000 --from-seed 1`: many schedules of a cluster, on all cores.

Ends with 1 at the first violation, after one line that reproduces it. What takes longer than one sitting goes on where it was
left: each line of progress, and the last, says up to which seed all have held, and with `--minutes` it ends by itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from tests.simulation.cluster.faults import FAULTS, IN_NO_DRAW
from tests.simulation.cluster.schedule import ClusterSchedule
from tests.simulation.invariants import Violation

_CHUNK = 50
_COLLECT = 10
_PROGRESS_S = 60
_BY_NAME = {fault.__name__: fault for fault in (*FAULTS, *IN_NO_DRAW)}


@dataclass
class Ran:
    """What came of some seeds: faults, what happened, the first violation with the line that reproduces it, or '', and CPU
    seconds of user code."""

    seeds: range
    done: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    violation: str = ""
    user_s: float = 0.0


def run_chunk(seeds: range, likely: tuple[str, ...] = ()) -> Ran:
    """Garbage is collected between schedules, each of which leaves little: looked for while one runs, it is not found."""
    ran, began_s = Ran(seeds), _user_s()
    wanted = [fault for name, fault in _BY_NAME.items() if name in likely]
    gc.disable()
    try:
        for seed in seeds:
            schedule = ClusterSchedule(seed, wanted)
            try:
                schedule.run()
            except Violation as violation:
                more = f" --likely {','.join(likely)}" if likely else ""
                line = f"python -m tests.simulation.cluster --schedules 1 --seed {seed}{more}"
                ran.violation = f"{violation}\nreproduce with: {line}"
                break
            ran.done += schedule.done
            ran.happened += schedule.world.counts
            if seed % _COLLECT == 0:
                gc.collect()
    finally:
        gc.enable()
    ran.user_s = _user_s() - began_s
    return ran


def _user_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


class Tally:
    """Of all chunks so far."""

    def __init__(self, seeds: range) -> None:
        self.total = Ran(seeds)
        self.schedules = 0
        self.began_s = self._said_s = time.monotonic()
        self._next = seeds.start
        self._ahead: dict[int, int] = {}
        """Chunks that are done before one with smaller seeds: by their first seed, the seed after their last."""

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self.began_s

    def add(self, ran: Ran) -> None:
        self.total.done += ran.done
        self.total.happened += ran.happened
        self.total.user_s += ran.user_s
        self.schedules += len(ran.seeds)
        self._ahead[ran.seeds.start] = ran.seeds.stop
        while self._next in self._ahead:
            self._next = self._ahead.pop(self._next)

    def progress(self) -> str:
        """'' if it was said a short while ago."""
        if time.monotonic() - self._said_s < _PROGRESS_S:
            return ""
        self._said_s = time.monotonic()
        return self.text()

    def text(self) -> str:
        seeds, passed_s = self.total.seeds, max(self.passed_s, 0.001)
        return (
            f"{self.schedules} of {len(seeds)} schedules from seed {seeds.start}, {passed_s:.1f} s, "
            f"{self.schedules / passed_s:.1f} a second, {self.schedules / max(self.total.user_s, 0.001):.1f} a second of CPU; "
            f"every invariant held up to seed {self._next - 1}: go on with --from-seed {self._next}"
        )


def main(arguments: Sequence[str]) -> int:
    """Run, print, and say whether all invariants held."""
    options = _options(arguments)
    seeds = range(options.seed, options.seed + options.schedules)
    chunks = [seeds[begin : begin + _CHUNK] for begin in range(0, len(seeds), _CHUNK)]
    tally = Tally(seeds)
    with ProcessPoolExecutor(options.processes) as pool:
        for future in as_completed([pool.submit(run_chunk, chunk, options.likely) for chunk in chunks]):
            ran = future.result()
            if ran.violation:
                _say(ran.violation)
                pool.shutdown(cancel_futures=True)
                return 1
            tally.add(ran)
            if not options.quiet and (text := tally.progress()):
                _say(text)
            if tally.passed_s > 60 * options.minutes:
                pool.shutdown(cancel_futures=True)
                break
    if not options.quiet:
        for title, counts in (("faults", tally.total.done), ("entries and events", tally.total.happened)):
            _say(f"--- {title}")
            for name, count in sorted(counts.items()):
                _say(f"{count:10}  {name}")
    _say(tally.text())
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--from-seed", "--seed", dest="seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no more after so long")
    parser.add_argument("--likely", default="", metavar="FAULT,...", help="faults that every schedule has")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor what was covered")
    options = parser.parse_args(arguments)
    options.likely = tuple(filter(None, options.likely.split(",")))
    if unknown := {*options.likely} - {*_BY_NAME}:
        parser.error(
            f"no fault is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(_BY_NAME))}"
        )
    return options


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
