"""`python -m tests.chaos.hosts --hosts 5 --rounds N --seed S`: hosts of a cluster of agents are killed, frozen and cut off
at random, and two oracles check what their pipelines commit."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.chaos.hosts.harness import HostsChaos, HostsError, HostsRound
from tests.chaos.network import can_cut
from tests.support.java import expect_short_lives


def main() -> int:
    """Exit code 0: every check held, and everything was placed again. 1: not; all files are kept and named."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hosts", description=__doc__)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--pipelines", type=int, default=2, help="of one node each, with state")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--seed", type=int, default=1, help="names the sequence of faults; places and instants vary"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    options = parser.parse_args()
    if not 1 <= options.pipelines < options.hosts:
        parser.error("give at least one pipeline, and a host more than pipelines: each takes one slot")
    expect_short_lives()
    # Nothing of a host ends by itself with this process, so that it has to come to its end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    home = Path(tempfile.mkdtemp(prefix="kcontrol-hosts-"))
    cuts = "" if can_cut() else "; hosts can't be cut off here, which needs root and iptables"
    _tell(
        f"seed {options.seed}, {options.rounds} rounds, {options.hosts} hosts, {options.pipelines} pipelines, files in "
        f"{home}{cuts}"
    )
    line = _json if options.json else _line
    try:
        chaos = HostsChaos(
            home, options.seed, options.hosts, options.pipelines, lambda done: print(line(done), flush=True)
        )
        outcome = chaos.run(options.rounds)
    except HostsError as error:
        _tell(str(error))
        _tell(f"everything is kept in {home}; the same faults again: --seed {options.seed}")
        return 1
    if options.json:
        print(json.dumps({"outcome": asdict(outcome)}))
    else:
        print(
            f"seed {outcome.seed}: {len(outcome.rounds)} rounds, {outcome.steps} steps, {outcome.records_in:,} records in, "
            f"{outcome.checks} checks by both oracles, 0 violations; all hosts are members and every node runs once"
        )
    shutil.rmtree(home, ignore_errors=True)
    return 0


def _line(done: HostsRound) -> str:
    had = f" with {', '.join(done.had)}" if done.had else " with no node"
    back = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in done.back_s.items())
    what = f"{done.host}{had}: {done.fault}, {done.processes} processes, for {done.outage_s:.1f} s"
    return f"round {done.number:>4}  {what}; next step of {back}"


def _json(done: HostsRound) -> str:
    return json.dumps({"round": asdict(done)})


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
