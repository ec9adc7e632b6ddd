"""How soon a thread of Python's that wants to run is let.

Python takes the interpreter from a thread that computes after 5 ms, where another one asks for it. A small step passes
through a dozen threads of three kinds of process, each for a fraction of a millisecond, so it waits for whoever else has
something to compute, and waits again. See docs/decisions/130-handed-over-sooner.md.
"""

from __future__ import annotations

import sys

SWITCH_INTERVAL_S = 0.0005


def hand_over_soon() -> None:
    """For processes that are kcontrol's own, and what is forked from them: it holds for all threads."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
