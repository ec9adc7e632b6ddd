"""How the tests' Java processes run: they live for seconds, so the optimizing compiler
would cost more than it gives back.

Halves the CPU time of a Spark process that starts and makes a few steps. `bench/` leaves Java as users have
it.
"""

from __future__ import annotations

import os

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Without the optimizing compiler Java would keep a fifth of its usual room for code, which a node of several queries
has filled after two minutes: it then interprets what is new."""


def expect_short_lives() -> None:
    """For every Java that this process and its children start, unless the environment says otherwise."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)
