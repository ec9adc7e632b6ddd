"""The seed of tests that roll dice: of KCONTROL_SEED, or a new one, which is printed."""

from __future__ import annotations

import os
import random
import sys


def seed_of_run() -> int:
    """Of the whole run if KCONTROL_SEED is set, else a new one with each call."""
    return int(os.environ.get("KCONTROL_SEED", random.SystemRandom().randrange(1 << 32)))


def say_seed(seed: int) -> None:
    """How to run it again."""
    sys.stdout.write(f"KCONTROL_SEED={seed}\n")


def seeded() -> random.Random:
    """Dice of such a seed, which is printed."""
    seed = seed_of_run()
    say_seed(seed)
    return random.Random(seed)
