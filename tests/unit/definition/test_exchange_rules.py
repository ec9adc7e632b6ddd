"""Exchanges in the spec: what of a pipeline may change with them, what no spec can have, and calls that are no query's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kcontrol
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    ExchangeLayout,
    ExchangeSpec,
    Layout,
    OutputLayout,
    PipelineSpec,
    WatermarkSpec,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.exchange import stages_of
from kcontrol.core.step.layout import layout_of, writers_of
from kcontrol.definition.exchanges import ExchangeFacts, as_list, check_words
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec
from kcontrol.definition.spec_rules import check_spec
from kcontrol.definition.succession import check_resize, succeed
from kcontrol.errors import ConfigurationError, InputGoneError, SpecChangedError
from tests.unit.core.made import boundary

SENDER = QueryFacts("x.send", (), "append", (), brings_key=False, inputs=("orders",), sends="x")
TOTALS = QueryFacts(
    *("totals", ("totals",), "update", ("aggregate[user]",)),
    brings_key=True,
    gathers=True,
    stage=1,
    exchanges=("x",),
    where="shop.py, line 7",
)
EXCHANGE = ExchangeFacts("x", ("user",), 0, "x.send", schema="{}")
DELIVERY = ExchangeFacts("totals-deliver", (), 1, "totals", delivers="totals")


def spec_of(
    queries: tuple[QueryFacts, ...] = (SENDER, TOTALS),
    exchanges: tuple[ExchangeFacts, ...] = (EXCHANGE, DELIVERY),
    partitions: int = 2,
    **more: Any,
) -> PipelineSpec:
    settings: dict[str, Any] = {
        "nodes": 2,
        "inputs": [kcontrol.KafkaInput("orders", topic="orders")],
        "outputs": [kcontrol.KafkaOutput("totals", topic="totals")],
    }
    inputs, outputs = {"orders": FoundInput("i", (0,) * partitions)}, {"totals": OutputFacts("o", 1)}
    topics = {each.name: f"t.{each.name}" for each in exchanges}
    return build_spec(
        kcontrol.Pipeline("p", **{**settings, **more}), inputs, outputs, queries, exchanges, topics
    )


def test_keys_behind_an_exchange_need_neither_partitioned_by_nor_an_output_partition_for_each_node() -> None:
    spec = spec_of()
    assert (spec.queries, spec.stages) == (("x.send", "totals"), (0, 1))
    assert spec.exchanges == (
        ExchangeSpec("x", "t.x", "", ("user",), "x.send", 0),
        ExchangeSpec("totals-deliver", "t.totals-deliver", "", (), "totals", 1, "totals"),
    )
    check_spec(spec)
    with pytest.raises(ConfigurationError, match="has 1 partitions, so some nodes could write nothing"):
        spec_of(exchanges=(EXCHANGE,))


def test_a_node_that_reads_no_input_may_receive() -> None:
    spec = spec_of(partitions=1)
    assert (spec.nodes, spec.inputs[0].node_of) == (2, (0,))
    check_spec(spec)
    told = r"at most 1 partitions, so some nodes would have nothing to read: use fewer nodes, or bring rows to all"
    with pytest.raises(ConfigurationError, match=told):
        spec_of(exchanges=(replace(EXCHANGE, by=()), DELIVERY), partitions=1)


def test_what_one_node_reads_alone_meets_by_key_on_all_and_is_written_by_another_alone() -> None:
    """S000-10."""
    source = kcontrol.KafkaInput("orders", topic="orders", node=0)
    sink = kcontrol.KafkaOutput("totals", topic="totals", node=1)
    spec = spec_of(inputs=[source], outputs=[sink])
    check_spec(spec)
    assert (spec.inputs[0].node_of, spec.outputs[0].node) == ((0, 0), 1)
    assert {*owners_of(spec)} == {0, 1}, "the rows of a key are on either node"
    layout = Layout((), 1, (OutputLayout("totals", 1, 1, "exact"),))
    assert [writers_of(spec, layout, node) for node in range(2)] == [((),), ((0,),)]


FOUND = replace(TOTALS, stage=0, exchanges=(), inputs=("orders",), stateful_operators=(), gathers=False)
"""Rows of an input, with keys, as they were read."""
BROUGHT = replace(DELIVERY, stage=0)
TWO_SHARDS = kcontrol.Layout(shuffle_partitions=2)
"""Fewer than nodes: nothing that is only delivered goes by shards."""


def test_what_any_node_has_read_is_written_by_one_alone_without_partitioned_by() -> None:
    sink = kcontrol.KafkaOutput("totals", topic="totals", node=1)
    for keyed in (True, False):
        spec = spec_of(
            (replace(FOUND, brings_key=keyed),), (BROUGHT,), 3, nodes=3, layout=TWO_SHARDS, outputs=[sink]
        )
        check_spec(spec)
        assert (spec.outputs[0].partitions, spec.outputs[0].node, stages_of(spec)) == (1, 1, 2)
        assert layout_of(spec, ()).exchanges == (ExchangeLayout("totals-deliver", 1, 1),)
    with pytest.raises(ConfigurationError, match="needs at least 3, or node= of the output, the one node"):
        spec_of((replace(FOUND, brings_key=False),), (), 3, nodes=3, layout=TWO_SHARDS)


def test_several_queries_may_read_an_exchange_but_one_must() -> None:
    settings: dict[str, Any] = {
        "outputs": [kcontrol.KafkaOutput(name, topic=name) for name in ("totals", "more")]
    }
    more = replace(TOTALS, name="more", outputs=("more",), brings_key=False)
    inputs, outputs = (
        {"orders": FoundInput("i", (0, 0))},
        {name: OutputFacts("o", 2) for name in ("totals", "more")},
    )
    pipeline = kcontrol.Pipeline(
        "p", nodes=2, inputs=[kcontrol.KafkaInput("orders", topic="orders")], **settings
    )

    def built(*queries: QueryFacts) -> PipelineSpec:
        topics = {"x": "t.x", "totals-deliver": "t.d"}
        return build_spec(pipeline, inputs, outputs, queries, (EXCHANGE, DELIVERY), topics)

    assert built(SENDER, TOTALS, more).stages == (0, 1, 1)
    with pytest.raises(ConfigurationError, match="exchange 'x': no query reads the rows that it brings"):
        built(SENDER, *(replace(each, exchanges=(), inputs=("orders",), stage=0) for each in (TOTALS, more)))


def test_what_is_not_behind_an_exchange_is_looked_at_as_ever() -> None:
    with pytest.raises(ConfigurationError, match=r"does not say by which column .* kcontrol\.exchange\(\)"):
        spec_of((replace(SENDER, stateful_operators=("dedup",)), TOTALS))
    scattered = replace(
        SENDER, gathers=True, scattered=("groups by item",), remedies=('by=["item"]',), where="a.py, line 3"
    )
    with pytest.raises(
        ConfigurationError,
        match=r"^a\.py, line 3: .*'x\.send' groups by item, .*exchange\(\.\.\., by=\[\"item",
    ):
        spec_of((scattered, TOTALS))
    spec_of((replace(SENDER, has_watermark=True), TOTALS))


def test_a_watermark_behind_an_exchange_is_one_for_all_nodes() -> None:
    spec = spec_of((SENDER, replace(TOTALS, has_watermark=True, delays_ms=(5_000,))))
    assert spec.watermarks == (WatermarkSpec(TOTALS.name, (5_000,), TOTALS.policy),)
    assert spec_of((replace(SENDER, has_watermark=True), TOTALS)).watermarks == ()


def test_partitions_may_be_added_to_an_input_whose_rows_are_exchanged() -> None:
    assert succeed(spec_of(partitions=5), spec_of()).inputs[0].start_offsets == (0, 0, 0, 0, 0)


def test_the_number_of_nodes_stays_once_there_are_steps() -> None:
    three, two = spec_of(nodes=3, layout=kcontrol.Layout(shuffle_partitions=3), partitions=3), spec_of()
    check_resize(three, two, StepsView("p"))
    made = StepsView("p", last=boundary(1, nodes=2))
    for each, before in ((three, two), (replace(three, stateful=False), replace(two, stateful=False))):
        with pytest.raises(SpecChangedError, match=r"layout of 2 nodes, .* this is nodes = 3"):
            check_resize(each, before, made)


def test_an_exchange_whose_topic_was_recreated_is_refused() -> None:
    earlier = spec_of()
    later = replace(
        earlier, exchanges=(replace(earlier.exchanges[0], topic_id="other"), earlier.exchanges[1])
    )
    with pytest.raises(
        InputGoneError, match=r"exchange 'x': topic 't\.x' was recreated \(its id was , now it is other\)"
    ):
        succeed(later, earlier)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda spec: replace(spec, stages=(0,)), "stages: there must be one, 0 or more, for each"),
        (lambda spec: replace(spec, stages=(0, -1)), "stages: there must be one, 0 or more, for each"),
        (
            lambda spec: replace(spec, stages=(1, 1)),
            "exchange 'x': sender = 'x.send': must be a query of stage 0",
        ),
        (lambda spec: replace(spec, exchanges=spec.exchanges * 2), "each must be there once"),
        (lambda spec: replace(spec, nodes=1), "exchanges: nodes = 1: must be 2 to"),
        (
            lambda spec: replace(spec, exchanges=(replace(spec.exchanges[0], delivers="no"),)),
            "delivers = 'no': there is no such output",
        ),
        (
            lambda spec: replace(spec, exchanges=(replace(spec.exchanges[0], name="a.b"),)),
            "exchange name 'a.b' is not allowed",
        ),
    ],
)
def test_what_no_spec_can_have_of_exchanges_is_refused(change: Any, told: str) -> None:
    changed = change(spec_of())
    if changed.nodes == 1:
        changed = replace(changed, inputs=(replace(changed.inputs[0], node_of=(0, 0)),))
    with pytest.raises(ConfigurationError) as refused:
        check_spec(changed)
    assert told in str(refused.value)


def test_one_column_is_a_list_of_one() -> None:
    assert as_list("user") == ["user"]
    assert as_list(["user", "item"]) == ["user", "item"]
    assert as_list(()) == []


def test_words_that_no_exchange_can_be_given() -> None:
    with pytest.raises(ConfigurationError, match="name=3"):
        check_words(3, "lz4")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"is for a function given to @pipeline\.query"):
        kcontrol.exchange(None, by="user")
