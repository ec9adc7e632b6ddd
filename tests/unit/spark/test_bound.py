"""Which queries a node runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from tests.unit.core.made import SPEC

OF_ONE = replace(SPEC.inputs[0], name="rates", node_of=(1, 1), node=1)
SPREAD = replace(SPEC.inputs[0], name="orders", node_of=(0, 1))
TWO = replace(SPEC, nodes=2, inputs=(OF_ONE, SPREAD))


def query(name: str, *inputs: str) -> BoundQuery:
    return BoundQuery(name, cast("Any", None), "append", (name,), inputs, True, True, (), False)


def test_a_query_all_of_whose_inputs_another_node_reads_is_not_run() -> None:
    """It would give what it gives of no rows at all."""
    all_of_them = BoundQueries(
        "p", (query("total", "rates"), query("seen", "orders"), query("both", "rates", "orders"))
    )
    assert all_of_them.on_node(TWO, 0).names == ("seen", "both")
    assert all_of_them.on_node(TWO, 1).names == ("total", "seen", "both")
