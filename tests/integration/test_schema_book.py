"""What the log holds of a registry, on a real broker: asked for once, by step and node, and enough without the registry."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kcontrol
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.spark.channel.schemas import AskedFor, OutputPlan
from kcontrol.apps.schema_book import SchemaBook
from kcontrol.apps.schema_check import check_schemas
from kcontrol.errors import ConfigurationError, RegistryAwayError, RegistryError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.registry import Registry, serving

ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"long"}]}'
WIDER = ORDER[:-2] + ',{"name":"note","type":"string"}]}'
MakeBook = Callable[..., SchemaBook]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as found:
        yield found


@pytest.fixture
def book(settings: ClusterSettings, registry: Registry) -> MakeBook:
    """`book()` is what a process has that has just started."""
    pipeline = f"p{secrets.token_hex(4)}"
    ensure_topics(settings, pipeline)

    def make(*, writes: bool = True, **limits: int) -> SchemaBook:
        asked = registry.settings.model_copy(update=limits)
        return SchemaBook(settings.model_copy(update={"schema_registry": asked}), pipeline, writes=writes)

    return make


def plan(
    text: str = ORDER, output: str = "out", *, registers: bool = True, group: tuple[str, ...] = ()
) -> OutputPlan:
    return OutputPlan(output, f"{output}-value", "AVRO", text, registers, group or (output,))


def asked(step: int, node: int = 0, serial: int = 1, *, replayed: bool = False) -> AskedFor:
    return AskedFor(node, step, serial, replayed)


def test_an_outputs_schema_is_registered_once_and_then_the_log_is_enough(
    book: MakeBook, registry: Registry
) -> None:
    book().prepare([plan()])
    (known,) = registry.subjects()["out-value"]
    registry.broken = 503
    again = book()
    again.prepare([plan()])
    assert again.of_output("out", ORDER) == book(writes=False).of_output("out", ORDER) == known
    with pytest.raises(RegistryAwayError, match="output 'out': schema registry"):
        again.prepare([plan(WIDER)])
    registry.broken, registry.checks = 0, False
    again.prepare([plan(WIDER)])
    assert again.of_output("out", WIDER) != known
    assert again.of_output("out", ORDER) == known


def test_a_schema_that_is_to_be_there_or_is_refused_is_told_with_its_output(
    book: MakeBook, registry: Registry
) -> None:
    with pytest.raises(RegistryError, match="output 'out': subject 'out-value' does not have its schema"):
        book().prepare([plan(registers=False)])
    registry.add("out-value", ORDER)
    book().prepare([plan(registers=False)])
    with pytest.raises(RegistryError, match=r"output 'out': .* not compatible"):
        book().prepare([plan(WIDER)])
    with pytest.raises(RegistryError, match=r"the log of pipeline .* has no schema of it"):
        book(writes=False).of_output("other", ORDER)


def test_outputs_of_one_frame_need_one_id(book: MakeBook, registry: Registry) -> None:
    group = ("a", "b")
    book().prepare([plan(output="a", group=group), plan(output="b", group=group)])
    found = book()
    found.prepare([plan(output="c")])
    registry._schemas.clear()  # of another registry, say
    with pytest.raises(
        RegistryError, match="outputs c, d are served by one frame, and the registry has different ids"
    ):
        found.prepare([plan(output="c", group=("c", "d")), plan(output="d", group=("c", "d"))])


def test_an_id_is_asked_for_once_and_known_from_then_on(book: MakeBook, registry: Registry) -> None:
    known = registry.add("in-value", ORDER)
    first = book()
    assert first.of_inputs([known, 99], asked(5))[known].text == ORDER
    assert [each for each in registry.asked if "/schemas/ids/" in each] == [
        f"GET /schemas/ids/{known}",
        "GET /schemas/ids/99",
    ]
    registry.broken = 503
    assert set(first.of_inputs([known, 99], asked(5))) == {known}
    assert set(book().of_inputs([known], asked(6))) == {known}
    with pytest.raises(RegistryAwayError, match="did not answer for schema 99"):
        book().of_inputs([known, 99], asked(6))
    again = book(writes=False)
    assert set(again.of_inputs([known, 99], asked(5, replayed=True))) == {known}
    assert set(again.of_inputs([known, 99], asked(4, serial=2, replayed=True))) == set()


def test_another_node_goes_by_the_log_and_by_its_own_steps(book: MakeBook, registry: Registry) -> None:
    known = registry.add("in-value", ORDER)
    book().of_inputs([known], asked(5, node=0))
    registry.broken = 503
    assert set(book().of_inputs([known], asked(7, node=1))) == {known}
    again = book(writes=False)
    assert set(again.of_inputs([known], asked(6, node=0, replayed=True))) == {known}
    assert set(again.of_inputs([known], asked(6, node=1, serial=2, replayed=True))) == set()
    assert set(again.of_inputs([known], asked(7, node=1, serial=3, replayed=True))) == {known}


def test_what_was_unknown_in_an_attempt_stays_so_in_it_and_is_asked_for_in_the_next(
    book: MakeBook, registry: Registry
) -> None:
    found = book()
    assert not found.of_inputs([1], asked(5, serial=1))
    assert registry.add("in-value", ORDER) == 1
    assert not found.of_inputs([1], asked(5, serial=1))
    assert set(found.of_inputs([1], asked(5, serial=2))) == {1}


def test_an_attempt_asks_for_no_more_unknown_ids_than_it_may(book: MakeBook, registry: Registry) -> None:
    found = book(max_unknown_ids=3)
    assert not found.of_inputs([100, 101], asked(5))
    with pytest.raises(RegistryAwayError, match="does not know more than 3 of the schemas that step 5 meets"):
        found.of_inputs(range(110, 120), asked(5))
    assert len(registry.asked) == 4
    assert not found.of_inputs([100, 101, 102], asked(5, serial=2))


def test_any_number_of_ids_that_are_registered_are_found(book: MakeBook, registry: Registry) -> None:
    found = book(max_unknown_ids=3)
    known = [
        registry.add(f"in{number}-value", ORDER.replace("Order", f"Order{number}")) for number in range(5)
    ]
    assert set(found.of_inputs([90, *known, 91], asked(5))) == set(known)


def test_what_is_run_again_asks_no_registry_and_writes_nothing(
    settings: ClusterSettings, book: MakeBook, registry: Registry
) -> None:
    known = registry.add("in-value", ORDER)
    live, again = book(), book(writes=False)
    assert not again.of_inputs([known], asked(5, replayed=True))
    assert not live.of_inputs([known], asked(5, replayed=True))
    assert registry.asked == []
    without = SchemaBook(settings, live._pipeline)
    with pytest.raises(ConfigurationError, match="put url into the table"):
        without.of_inputs([known], asked(6))


def pipeline(**output: Any) -> kcontrol.Pipeline:
    made = {"value_format": "confluent-avro", "schema": ORDER, **output}
    return kcontrol.Pipeline(
        "orders",
        inputs=[kcontrol.KafkaInput("in", topic="in")],
        outputs=[kcontrol.KafkaOutput("out", topic="shop", **made)],
    )


def test_what_is_wrong_with_a_schema_is_told_before_spark_starts(registry: Registry) -> None:
    settings = ClusterSettings(bootstrap_servers="localhost:1", schema_registry=registry.settings)
    check_schemas(settings, pipeline())
    assert registry.subjects() == {}
    check_schemas(ClusterSettings(bootstrap_servers="localhost:1"), pipeline(value_format=None, schema=None))
    with pytest.raises(
        ConfigurationError, match=r"pipeline 'orders', output 'out' has values .*\[schema_registry\]"
    ):
        check_schemas(ClusterSettings(bootstrap_servers="localhost:1"), pipeline())
    with pytest.raises(RegistryError, match=r"subject 'shop-shop.Order' does not have its schema"):
        check_schemas(settings, pipeline(register_schema=False, subject="topic-record"))
    registry.add("shop-value", ORDER)
    check_schemas(settings, pipeline(register_schema=False))
    with pytest.raises(
        RegistryError, match=r"its schema is not compatible with what subject 'shop-value' has: .*note"
    ):
        check_schemas(settings, pipeline(schema=WIDER))


def test_a_registry_that_is_away_does_not_keep_a_pipeline_from_starting(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClusterSettings(bootstrap_servers="localhost:1", schema_registry=registry.settings)
    registry.broken = 503
    with caplog.at_level(logging.WARNING, "kcontrol.schemas"):
        check_schemas(settings, pipeline())
    assert "it is asked again when it is needed" in caplog.text
