"""A few rounds against hosts; `make chaos CLUSTER=5` does many."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.test_short import seed_of_this_run
from tests.support.processes import ROOT

ROUNDS = 3


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_a_few_rounds_against_hosts() -> None:
    asked = ["--hosts", "5", "--pipelines", "2", "--rounds", str(ROUNDS), "--seed", str(seed_of_this_run())]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.hosts", *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3_500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 violations" in done.stdout
