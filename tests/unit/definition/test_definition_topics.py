"""Topics of a pipeline that can't be: kcontrol's own, and names that Kafka would confuse."""

from __future__ import annotations

import pytest

from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.definition.topic_rules import check_exchange_topics, check_own_topics
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import Names


def pipeline(reads: str = "orders", writes: str = "totals", dead: str | None = None) -> Pipeline:
    more = (
        {"value_format": "json", "schema": "a INT", "on_bad_record": "dead_letter", "dead_letter_topic": dead}
        if dead
        else {}
    )
    return Pipeline(
        "sums",
        inputs=[KafkaInput("orders", topic=reads, **more)],
        outputs=[KafkaOutput("totals", topic=writes)],
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"reads": "kc.control"}, "input 'orders': topic 'kc.control' is the control topic"),
        ({"writes": "kc.control"}, "output 'totals': topic 'kc.control' is the control topic"),
        (
            {"reads": "kc.sums.steps"},
            "input 'orders': topic 'kc.sums.steps' is the pipeline's own log of steps",
        ),
        ({"writes": "kc.other.steps"}, "output 'totals': topic 'kc.other.steps' has a name by which"),
        (
            {"dead": "kc.other.steps"},
            "dead_letter_topic of input 'orders': topic 'kc.other.steps' has a name",
        ),
        (
            {"writes": "kc.other.exchange.x"},
            "output 'totals': topic 'kc.other.exchange.x' has a name by which nodes of a pipeline exchange rows",
        ),
        (
            {"reads": "kc.sums.exchange.x"},
            "input 'orders': topic 'kc.sums.exchange.x' has a name by which nodes of a pipeline exchange rows",
        ),
        (
            {"writes": "kc_sums.steps"},
            r"output 'totals': topic 'kc_sums.steps' differs from 'kc.sums.steps' \(the pipeline's own log",
        ),
    ],
)
def test_kcontrols_own_topics_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        check_own_topics(pipeline(**given), Names("kc"))


def test_other_topics_are_not() -> None:
    check_own_topics(pipeline("kc.other.steps", "kc.sums", "kc.dead"), Names("kc"))
    check_own_topics(pipeline("kc.other.exchange.x"), Names("kc"))


def test_topics_of_exchanges_that_kafka_would_confuse_are_refused() -> None:
    check_exchange_topics(pipeline(), Names("kc"), ["by-user", "by_user"])
    with pytest.raises(
        ConfigurationError, match=r"pipeline 'sums', input 'orders': topic 'kc_sums_exchange_x' differs"
    ):
        check_exchange_topics(pipeline("kc_sums_exchange_x"), Names("kc"), ["x"])
    with pytest.raises(ConfigurationError, match="exchange name 'a b' is not allowed"):
        check_exchange_topics(pipeline(), Names("kc"), ["a b"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"reads": "a.b", "writes": "a_b"},
            "output 'totals': topic 'a_b' differs from 'a.b' .*input 'orders'",
        ),
        ({"writes": "__transaction_state"}, "'__transaction_state' begins with '__'"),
        ({"reads": "__consumer_offsets"}, "'__consumer_offsets' begins with '__'"),
        ({"writes": "x" * 250}, "is not a Kafka topic name: use 1 to 249"),
    ],
)
def test_names_that_can_not_be_are_refused_by_the_definition(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        pipeline(**given)
