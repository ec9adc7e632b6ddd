"""A peer's speed is from commit to commit, without its warm-up and without the last commit."""

from __future__ import annotations

import pytest

from bench.peers.progress import Look, records_per_s


def test_the_first_third_and_the_last_commit_do_not_count() -> None:
    looks = [Look(1, 100), Look(20, 400), Look(21, 500), Look(23, 800), Look(90, 1_000)]
    assert records_per_s(looks, 1_000) == 400 / 3


def test_too_few_commits_are_no_figure_but_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"only 2 commits .* a backlog of 1,000 records is too small"):
        records_per_s([Look(1, 100), Look(2, 400), Look(3, 700), Look(4, 1_000)], 1_000)
