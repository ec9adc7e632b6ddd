"""A few rounds against hosts; `make chaos CLUSTER=5` does many."""

from __future__ import annotations

import pytest

from tests.chaos.test_short import check_rounds, seed_of_this_run

ROUNDS = 3


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_a_few_rounds_against_hosts() -> None:
    asked = ["--hosts", "5", "--pipelines", "2", "--rounds", str(ROUNDS), "--seed", str(seed_of_this_run())]
    check_rounds("tests.chaos.hosts", *asked)
