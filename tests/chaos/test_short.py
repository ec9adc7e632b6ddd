"""A few rounds of chaos in every test run; `make chaos` does many."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.harness import Chaos
from tests.chaos.report import round_line
from tests.support.processes import ROOT

ROUNDS, FEW = 4, 2
"""Of each kind in the heavy run; and in every run, whose faults are others each time."""


def seed_of_this_run() -> int:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - shown by pytest when it fails
    return seed


def check_rounds(module: str, *arguments: str) -> None:
    """In a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3_500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 violations" in done.stdout


@pytest.mark.timeout(900)
def test_a_few_rounds_of_chaos(tmp_path: Path) -> None:
    tell = lambda done: print(round_line(done))  # noqa: E731, T201
    chaos = Chaos(tmp_path, seed_of_this_run(), coordinators=2, brokers=1, tell=tell)
    outcome = chaos.run(FEW, check_every=2)
    assert len(outcome.rounds) == FEW
    assert outcome.checks == FEW // 2 + 1
    assert outcome.records_in > 0


heavy = pytest.mark.heavy
KINDS = [
    pytest.param(
        ["--stateless", "both", "--standby", "--rounds", "2"],
        id="no state, planned once and in each step, beside each other, with standbys",
    ),
    pytest.param(["--stateless", "once"], marks=heavy, id="no state, planned once"),
    pytest.param(["--stateless", "each", "--nodes", "2"], marks=heavy, id="no state, planned in each step"),
    pytest.param(["--kept", "once"], marks=heavy, id="state, planned once"),
    pytest.param(["--kept", "each"], marks=heavy, id="state, planned in each step"),
    pytest.param(["--kept", "both", "--nodes", "2"], marks=heavy, id="state, planned once and not, by turns"),
    pytest.param(["--standby"], marks=heavy, id="standbys"),
    pytest.param(["--exchange", "--nodes", "2"], marks=heavy, id="2 nodes exchange rows"),
    pytest.param(["--exchange", "--nodes", "3"], marks=heavy, id="3 nodes exchange rows"),
    pytest.param(["--exchange", "--nodes", "3", "--layouts"], marks=heavy, id="1 to 3 nodes exchange rows"),
]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_rounds_of_every_kind(kind: list[str]) -> None:
    """In a process of its own, which knows from the start what kind it is."""
    check_rounds("tests.chaos", "--rounds", str(ROUNDS), *kind, "--seed", str(seed_of_this_run()))
