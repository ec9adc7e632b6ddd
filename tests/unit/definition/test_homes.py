"""What one node has to itself: which inputs and outputs go together, and what is right only because of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.core.model import SHARED_OUT, PipelineSpec
from kcontrol.core.step.exchange import stages_of
from kcontrol.definition.exchanges import ExchangeFacts
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec
from kcontrol.definition.succession import succeed
from kcontrol.errors import ConfigurationError, SpecChangedError

RATES, ORDERS = KafkaInput("rates", topic="rates", node=1), KafkaInput("orders", topic="orders")
TOTAL, SEEN = KafkaOutput("total", topic="total", node=1), KafkaOutput("seen", topic="seen")
GLOBAL = QueryFacts(
    "total",
    ("total",),
    "update",
    ("stateStoreSave[]",),
    brings_key=False,
    has_watermark=True,
    scattered=("brings all rows together, without a key",),
    gathers=True,
    inputs=("rates",),
)
PLAIN = QueryFacts("seen", ("seen",), "append", (), brings_key=False, inputs=("orders",))
PARTITIONS = {"rates": 2, "orders": 4, "total": 1, "seen": 4, "rates.dead_letter": 1}


def spec_of(
    queries: tuple[QueryFacts, ...] = (GLOBAL, PLAIN),
    inputs: tuple[KafkaInput, ...] = (RATES, ORDERS),
    outputs: tuple[KafkaOutput, ...] = (TOTAL, SEEN),
    nodes: int = 2,
    compatible_with: tuple[str, ...] = (),
    exchanges: tuple[ExchangeFacts, ...] = (),
    **partitions: int,
) -> PipelineSpec:
    pipeline = Pipeline("p", inputs=inputs, outputs=outputs, nodes=nodes, compatible_with=compatible_with)
    counts = {**PARTITIONS, **partitions}
    found = {each.name: FoundInput(each.topic, (0,) * counts[each.name]) for each in inputs}
    written = {name: OutputFacts(name, count) for name, count in counts.items()}
    topics = {each.name: f"p.{each.name}" for each in exchanges}
    return build_spec(pipeline, found, written, queries, exchanges, topics)


def test_one_node_reads_and_writes_all_of_what_is_its_own_and_the_rest_is_shared_out() -> None:
    spec = spec_of()
    assert [(each.node, each.node_of) for each in spec.inputs] == [(1, (1, 1)), (SHARED_OUT, (0, 1, 0, 1))]
    assert [each.node for each in spec.outputs] == [1, SHARED_OUT]


def test_a_query_without_a_key_and_with_a_watermark_is_right_where_one_node_reads_everything() -> None:
    assert spec_of().nodes == 2
    shared = (replace(RATES, node=None, partitioned_by="key"), replace(ORDERS, partitioned_by="key"))
    with pytest.raises(ConfigurationError, match="brings all rows together"):
        spec_of(inputs=shared, outputs=(replace(TOTAL, node=None), SEEN), total=4, rates=4)


def test_bad_records_of_an_input_that_one_node_reads_are_written_by_it() -> None:
    letters: dict[str, Any] = {"on_bad_record": "dead_letter", "dead_letter_topic": "bad"}
    source = replace(RATES, value_format="json", schema="a INT", **letters)
    bad = QueryFacts("rates.dead_letter", ("rates.dead_letter",), "append", (), False, inputs=("rates",))
    spec = spec_of((GLOBAL, PLAIN, bad), inputs=(source, ORDERS))
    assert (spec.outputs[-1].name, spec.outputs[-1].partitions, spec.outputs[-1].node) == (
        "rates.dead_letter",
        1,
        1,
    )


def test_keys_of_what_one_node_reads_alone_are_brought_to_the_nodes_of_their_partitions() -> None:
    keyed, shared = replace(GLOBAL, brings_key=True), replace(TOTAL, node=None)
    brought = ExchangeFacts("total-deliver", (), 0, "total", delivers="total")
    spec = spec_of((keyed, PLAIN), outputs=(shared, SEEN), exchanges=(brought,))
    assert (spec.inputs[0].node, spec.outputs[0].node, spec.outputs[0].partitions) == (1, SHARED_OUT, 1)
    assert stages_of(spec) == 2


def test_bad_records_for_too_few_partitions_are_written_where_one_node_reads_the_input() -> None:
    letters: dict[str, Any] = {"on_bad_record": "dead_letter", "dead_letter_topic": "bad"}
    source = replace(RATES, node=None, value_format="json", schema="a INT", **letters)
    bad = QueryFacts("rates.dead_letter", ("rates.dead_letter",), "append", (), False, inputs=("rates",))
    seen = replace(PLAIN, inputs=("rates", "orders"))
    told = r"has 1 partitions, .* or node= of input 'rates', the one node that reads it and writes its bad records"
    with pytest.raises(ConfigurationError, match=told):
        spec_of((seen, bad), (source, ORDERS), (SEEN,))


def test_with_one_node_it_says_nothing() -> None:
    spec = spec_of(inputs=(replace(RATES, node=0), ORDERS), outputs=(replace(TOTAL, node=0), SEEN), nodes=1)
    assert [each.node_of for each in spec.inputs] == [(0, 0), (0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"outputs": (replace(TOTAL, node=None), SEEN)},
            "'total' of output 'total' has 1 partitions, .* at least 2, or node= of the output, the one node that writes all",
        ),
        (
            {"queries": (replace(GLOBAL, inputs=("rates", "orders")), PLAIN), "outputs": (SEEN, TOTAL)},
            "input 'rates', which node 1 reads alone, is read together with inputs that are not that node's",
        ),
        (
            {
                "queries": (replace(GLOBAL, outputs=("seen",), inputs=("rates", "orders")),),
                "outputs": (SEEN,),
            },
            r"input 'rates', which node 1 reads alone, is read together with inputs that are not that node's.*\.exchange\(\)",
        ),
        ({"nodes": 3, "inputs": (RATES, replace(ORDERS, topic="o2"))}, None),
        (
            {"inputs": (RATES,), "queries": (GLOBAL,), "outputs": (TOTAL,)},
            "none those of node 0, which would have nothing to do",
        ),
        ({"inputs": (replace(RATES, node=2), ORDERS)}, "input 'rates' is of node = 2, but with nodes = 2"),
        ({"queries": (GLOBAL,), "outputs": (TOTAL,)}, "node 0, which would have nothing to do"),
        ({"outputs": (replace(TOTAL, node=7), SEEN)}, "output 'total' is of node = 7"),
    ],
)
def test_what_would_need_rows_of_another_node_is_refused(change: dict[str, Any], told: str | None) -> None:
    if told is None:
        assert spec_of(**change).nodes == 3
        return
    with pytest.raises(ConfigurationError, match=told):
        spec_of(**change)


_KEYED = {"value_format": "json", "schema": "user STRING, item STRING"}


@pytest.mark.parametrize(
    ("by", "partitions", "told"),
    [
        (None, 4, "does not say by which column it is partitioned"),
        (
            "item",
            4,
            "has the key 'user', but inputs are partitioned by item: two nodes could write the same key",
        ),
        ("user", 3, "must have the same number of partitions, but input 'orders' has 4, output 'seen' has 3"),
    ],
)
def test_what_has_keys_names_the_exchange_that_would_bring_them_together(
    by: str | None, partitions: int, told: str
) -> None:
    orders = KafkaInput("orders", topic="orders", partitioned_by=by, **_KEYED)  # type: ignore[arg-type]
    seen = KafkaOutput("seen", topic="seen", key="user", value_format="json")
    with pytest.raises(ConfigurationError, match=r'kcontrol\.exchange\(\.\.\., by="user"\)') as refused:
        spec_of((PLAIN,), (orders,), (seen,), seen=partitions)
    assert told in str(refused.value)
    grouped = replace(PLAIN, gathers=True)
    with pytest.raises(ConfigurationError, match=r"kcontrol\.exchange\(\)") as refused:
        spec_of((grouped,), (orders,), (seen,), seen=partitions)
    assert 'by="' not in str(refused.value), "by what it groups rows is not known here"


def test_partitioned_by_says_nothing_of_an_input_that_one_node_reads() -> None:
    with pytest.raises(ConfigurationError, match="exclude each other"):
        KafkaInput("rates", topic="rates", node=1, partitioned_by="key")


def test_a_definition_in_which_something_is_another_node_s_is_another_one_even_if_it_says_that_it_fits() -> (
    None
):
    before = spec_of()
    moved = {"inputs": (replace(RATES, node=0), ORDERS), "outputs": (replace(TOTAL, node=0), SEEN)}
    with pytest.raises(SpecChangedError, match="has changed"):
        succeed(spec_of(**moved), before)
    with pytest.raises(SpecChangedError, match="input 'rates' was node 1's alone, and is node 0's alone now"):
        succeed(spec_of(**moved, compatible_with=(before.fingerprint,)), before)


def test_added_partitions_of_an_input_that_one_node_reads_are_taken_up_with_its_state() -> None:
    before = spec_of()
    rates, orders = before.inputs
    fewer = replace(before, inputs=(replace(rates, start_offsets=(3,), node_of=(1,)), orders))
    assert succeed(before, fewer).inputs[0].start_offsets == (3, 0)
