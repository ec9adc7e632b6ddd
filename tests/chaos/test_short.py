"""A few rounds of chaos in every test run; `make chaos` does many."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from tests.chaos.harness import Chaos
from tests.chaos.report import round_line

ROUNDS = 4


@pytest.mark.timeout(900)
def test_a_few_rounds_of_chaos(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - shown by pytest when it fails
    tell = lambda done: print(round_line(done))  # noqa: E731, T201
    outcome = Chaos(tmp_path, seed, coordinators=2, brokers=1, tell=tell).run(ROUNDS, check_every=2)
    assert len(outcome.rounds) == ROUNDS
    assert outcome.checks == ROUNDS // 2 + 1
    assert outcome.records_in > 0
