"""The oracle of claims must see what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.hosts.claims import Join, check_claims

JOINS = {10: Join(0, 1, (7, 3)), 20: Join(0, 2, (7, 5)), 30: Join(0, 3, (7, 4)), 40: Join(0, 4, None)}


def made_by(*tokens: tuple[int, int]) -> list[dict[str, Any]]:
    """Steps by the claim and the incarnation of each."""
    return [
        {"step": step, "token": {"claim_epoch": claim, "incarnations": [incarnation]}}
        for step, (claim, incarnation) in enumerate(tokens, 1)
    ]


@pytest.mark.parametrize(
    ("tokens", "rules"),
    [
        ([], set()),
        ([(1, 10), (1, 10), (2, 20), (5, 20)], set()),
        ([(1, 10), (1, 20), (1, 10)], {"two at once"}),
        ([(1, 20), (1, 30)], {"two at once"}),
        ([(1, 10), (1, 30), (1, 20)], set()),
        ([(1, 11)], {"nobody's step"}),
        ([(1, 40)], {"not placed"}),
        ([(2, 10), (1, 10)], {"two coordinators"}),
    ],
)
def test_each_way_to_be_two_is_seen(tokens: list[tuple[int, int]], rules: set[str]) -> None:
    assert {violation.rule for violation in check_claims(made_by(*tokens), JOINS)} == rules


def test_a_join_is_of_one_node() -> None:
    [step] = made_by((1, 10))
    step["token"]["incarnations"] = [20, 10]
    assert {violation.rule for violation in check_claims([step], JOINS)} == {"nobody's step"}
