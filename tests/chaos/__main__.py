"""`python -m tests.chaos --rounds N --seed S`: kill and pause at random, check with the
oracle, say how long recovery took."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.java import expect_short_lives


def main() -> int:
    """Exit code 0: every round recovered and every check held. 1: not; all files are kept and named."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--seed", type=int, default=1, help="names the sequence of faults and the input; instants vary"
    )
    parser.add_argument(
        "--check-every", type=int, default=10, metavar="K", help="rounds between two checks by the oracle"
    )
    parser.add_argument("--nodes", type=int, default=1, help="of the pipeline")
    parser.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="with 3, most rounds hit brokers"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--stateless",
        nargs="?",
        const="once",
        choices=("once", "each", "both"),
        default="",
        help="queries without state that are planned once, as they are if nothing is said; or, the same, in each step; or both "
        "beside each other, whose outputs must be equal",
    )
    kind.add_argument(
        "--kept",
        choices=("once", "each", "both"),
        default="",
        help="queries with state that are planned once; or, the same, in each step; or by turns, as nodes are started",
    )
    kind.add_argument(
        "--exchange",
        action="store_true",
        help="inputs that are partitioned by nothing: rows meet by key across the nodes, within each step",
    )
    parser.add_argument("--standby", action="store_true", help="two processes for each node: one stands by")
    parser.add_argument(
        "--layouts",
        action="store_true",
        help="with --exchange: the number of nodes is changed between 1 and --nodes, again and again, now between two "
        "runs, now while it runs",
    )
    parser.add_argument("--coordinators", type=int, choices=(1, 2), default=2)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    options = parser.parse_args()
    if options.layouts and (not options.exchange or options.nodes < 2 or options.standby):
        parser.error("--layouts needs --exchange and --nodes above 1, and goes without --standby")
    return run(options)


def run(options: argparse.Namespace) -> int:
    """The rounds. What depends on the number of nodes is imported after it is known."""
    expect_short_lives()
    os.environ["CHAOS_NODES"] = str(options.nodes)
    os.environ["CHAOS_STATELESS"] = options.stateless
    os.environ["CHAOS_KEPT"] = options.kept
    os.environ["CHAOS_EXCHANGE"] = str(int(options.exchange))
    from tests.chaos.harness import Chaos, ChaosError
    from tests.chaos.report import outcome_json, round_json, round_line, summary

    home = Path(tempfile.mkdtemp(prefix="kcontrol-chaos-"))
    line = round_json if options.json else round_line
    print(
        f"seed {options.seed}, {options.rounds} rounds, {options.nodes} nodes, {options.brokers} "
        f"brokers, files in {home}",
        file=sys.stderr,
    )
    try:
        chaos = Chaos(
            home,
            options.seed,
            options.coordinators,
            options.brokers,
            lambda done: print(line(done), flush=True),
            standby=options.standby,
            layouts=options.layouts,
        )
        outcome = chaos.run(options.rounds, options.check_every)
    except ChaosError as error:
        print(error, file=sys.stderr)
        print(f"everything is kept in {home}; the same faults again: --seed {options.seed}", file=sys.stderr)
        return 1
    print(outcome_json(outcome) if options.json else summary(outcome))
    shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
