"""`python -m tests.simulation.cluster.exhaustive`: every state of each small cluster; `--larger` with those that take minutes.

Ends with 1 at the first violation, after a shortest way there.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.cluster.exhaustive.worlds import LARGER, MANY, WORLDS


def main(arguments: list[str]) -> int:
    """Search, print, and say whether all held everywhere. Who is ended by `--most` has seen no violation, and not all."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.cluster.exhaustive", description=__doc__
    )
    parser.add_argument("--larger", action="store_true", help="those that take minutes, too")
    parser.add_argument("--world", default="", help="only worlds with this in their name")
    parser.add_argument("--most", type=int, default=MANY, help="give a world up after so many states")
    options = parser.parse_args(arguments)
    for world in (*WORLDS, *(LARGER if options.larger else ())):
        if options.world not in str(world):
            continue
        result = world.search(options.most).run()
        _say(f"{world.name}: {result}")
        if result.found is not None:
            _say(str(result.found))
            return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
