"""The Pipeline: which topics may be together, how functions become queries, and that every output is served
once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import kcontrol
from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.errors import ConfigurationError

UNKNOWN_MODE: Any = "upsert"


@dataclass(frozen=True)
class Frame:
    """As much of a DataFrame as a definition looks at."""

    name: str
    isStreaming: bool = True


def make(*outputs: str, **settings: Any) -> Pipeline:
    return Pipeline(
        "flights",
        inputs=[KafkaInput("flights", topic="flights"), KafkaInput("planes", topic="planes")],
        outputs=[KafkaOutput(name, topic=f"out-{name}") for name in outputs or ("delays", "totals")],
        **settings,
    )


def dead_lettering(name: str, topic: str, dead: str) -> KafkaInput:
    return KafkaInput(
        name,
        topic=topic,
        value_format="json",
        schema="a INT",
        on_bad_record="dead_letter",
        dead_letter_topic=dead,
    )


def test_functions_get_the_inputs_they_name_and_the_session_if_wanted() -> None:
    pipeline = make()

    @pipeline.query
    def first(planes: Frame, spark: str) -> Any:
        assert (planes, spark) == (Frame("planes"), "session")
        return {"totals": kcontrol.output(planes, mode="update")}

    @pipeline.query
    def delays(flights: Frame, planes: Frame) -> Any:
        return Frame(flights.name + planes.name)

    totals, joined = pipeline.build("session", Frame)
    assert (totals.name, totals.outputs, totals.mode, totals.frame) == (
        "totals",
        ("totals",),
        "update",
        Frame("planes"),
    )
    assert (joined.name, joined.outputs, joined.mode) == ("delays", ("delays",), "append")
    assert joined.frame == Frame("flightsplanes")


def test_one_frame_serves_several_outputs() -> None:
    pipeline = make()

    @pipeline.query
    def both(flights: Frame) -> Any:
        return kcontrol.outputs(flights, to=["delays", "totals"], mode="update")

    [query] = pipeline.build(None, Frame)
    assert (query.name, query.outputs, query.mode) == ("delays", ("delays", "totals"), "update")


def test_the_decorated_function_stays_what_it_was() -> None:
    pipeline = make()

    @pipeline.query
    def delays(flights: int) -> int:
        return flights + 1

    assert delays(1) == 2


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            lambda frame: {"late": frame},
            "output 'late', which the pipeline does not have; its outputs are delays, totals",
        ),
        (lambda frame: frame, "output 'query', which the pipeline does not have"),
        (lambda frame: None, "NoneType is not a DataFrame"),
        (lambda frame: {"delays": "x"}, "output 'delays': str is not a DataFrame"),
        (lambda frame: {"delays": Frame("a", isStreaming=False)}, "not a streaming one"),
        (lambda frame: {"delays": frame}, "output 'totals': no frame serves it"),
        (lambda frame: {}, "output 'delays': no frame serves it"),
        (lambda frame: {"delays": kcontrol.outputs(frame, to=["delays"])}, "return kcontrol.outputs"),
        (lambda frame: {"delays": kcontrol.output(frame, UNKNOWN_MODE)}, "mode = 'upsert': must be 'append'"),
        (lambda frame: kcontrol.outputs(frame, to=["delays", "delays"]), "list of different output names"),
        (lambda frame: kcontrol.outputs(frame, to="delays"), "list of different output names"),
        (
            lambda frame: kcontrol.outputs(frame, to=["delays", "late"]),
            "output 'late', which the pipeline does not have",
        ),
    ],
)
def test_what_a_query_must_not_return(result: Callable[[Frame], Any], told: str) -> None:
    pipeline = make()

    @pipeline.query
    def query(flights: Frame) -> Any:
        return result(flights)

    with pytest.raises(ConfigurationError, match=told):
        pipeline.build(None, Frame)


def test_two_frames_for_one_output_are_refused() -> None:
    pipeline = make("delays")

    @pipeline.query
    def delays(flights: Frame) -> Any:
        return flights

    @pipeline.query
    def more(planes: Frame) -> Any:
        return {"delays": planes}

    with pytest.raises(ConfigurationError, match="output 'delays': more than one frame serves it"):
        pipeline.build(None, Frame)


def test_a_pipeline_without_a_query_can_not_be_built() -> None:
    with pytest.raises(ConfigurationError, match="has no query"):
        make().build(None, Frame)


def takes_unknown(fights: Any) -> Any: ...
def takes_nothing(spark: Any) -> Any: ...
def takes_all(*frames: Any) -> Any: ...
def takes_named(**frames: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            takes_unknown,
            "parameter 'fights', which is no input of pipeline 'flights'; its inputs are flights, planes",
        ),
        (takes_nothing, "'takes_nothing' reads no input"),
        (takes_all, r"\*frames: 'Any' is not allowed"),
        (takes_named, r"\*\*frames: 'Any' is not allowed"),
        (len, "decorate a function"),
        ("delays", "decorate a function"),
    ],
)
def test_what_can_not_be_a_query(function: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make().query(function)


def test_two_queries_of_one_name_are_refused_with_their_place() -> None:
    pipeline = make()
    pipeline.query(lambda_free)
    with pytest.raises(
        ConfigurationError,
        match=r"test_pipeline_queries.py, line \d+: .* already has a query named 'lambda_free'",
    ):
        pipeline.query(lambda_free)


def lambda_free(flights: Any) -> Any: ...


@pytest.mark.parametrize(
    ("inputs", "outputs", "told"),
    [
        (["a"], ["b", "b"], "two outputs named 'b'"),
        (["a", "a"], ["b"], "two inputs named 'a'"),
        (["spark"], ["b"], "an input can't be named 'spark'"),
        ([], ["b"], "inputs = "),
        (["a"], [], "outputs = "),
    ],
)
def test_names_must_differ_and_there_must_be_some(inputs: list[str], outputs: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Pipeline(
            "p",
            inputs=[KafkaInput(name, topic=f"in-{at}") for at, name in enumerate(inputs)],
            outputs=[KafkaOutput(name, topic=f"out-{at}") for at, name in enumerate(outputs)],
        )


@pytest.mark.parametrize(
    ("inputs", "outputs", "told"),
    [
        (
            [KafkaInput("a", topic="t")],
            [KafkaOutput("x", topic="t")],
            "output 'x' writes topic 't', which input 'a' reads",
        ),
        (
            [KafkaInput("a", topic="t")],
            [KafkaOutput("x", topic="u"), KafkaOutput("y", topic="u")],
            "output 'y' and output 'x' both write topic 'u'",
        ),
        (
            [dead_lettering("a", "t", "x")],
            [KafkaOutput("x", topic="x")],
            "dead_letter_topic of input 'a' and output 'x' both write topic 'x'",
        ),
        (
            [dead_lettering("a", "t", "bad"), dead_lettering("b", "u", "bad")],
            [KafkaOutput("x", topic="x")],
            "dead_letter_topic of input 'b' and dead_letter_topic of input 'a' both write topic 'bad'",
        ),
        (
            [dead_lettering("a", "t", "t")],
            [KafkaOutput("x", topic="x")],
            "dead_letter_topic of input 'a' writes topic 't', which input 'a' reads",
        ),
    ],
)
def test_no_topic_is_written_twice_or_read_and_written(inputs: Any, outputs: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Pipeline("p", inputs=inputs, outputs=outputs)


def test_two_inputs_may_read_one_topic() -> None:
    both = [KafkaInput("a", topic="t"), KafkaInput("b", topic="t")]
    assert Pipeline("p", inputs=both, outputs=[KafkaOutput("x", topic="x")]).input("b").topic == "t"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"nodes": 0}, "nodes = 0"),
        ({"steps": 5}, "steps = 5"),
        ({"compatible_with": ["abc"]}, "compatible_with = 'abc'"),
        ({"node": 2}, "no setting 'node'; did you mean 'nodes'"),
    ],
)
def test_wrong_settings_of_a_pipeline(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Pipeline 'flights': .*{told}"):
        make(**settings)


def test_parts_are_found_by_name_or_the_names_are_told() -> None:
    assert make().output("totals").topic == "out-totals"
    with pytest.raises(ConfigurationError, match="has no output 'late'; there are delays, totals"):
        make().output("late")


class MisspeltError(Exception):
    """As Spark's, whose text goes on with the plan."""


FAILURES: list[tuple[BaseException, str]] = [
    (
        MisspeltError(
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703;\n'Project ['x]\n+- Foo"
        ),
        "SQLSTATE: 42703$",
    ),
    (ImportError("No module named 'x'"), "ImportError: No module named 'x'$"),
    (
        MisspeltError("Queries with streaming sources must be executed with writeStream.start();\nX"),
        "can't count, collect",
    ),
    (
        MisspeltError("An error occurred while calling o1.x.\n: java.lang.Foo: why\n\tat a.b"),
        "MisspeltError: : java.lang.Foo: why$",
    ),
    (SystemExit(3), r"it ended the process \(sys.exit\(3\)\)$"),
    (ConfigurationError("not so"), "query 'totals': not so$"),
    (ValueError(), "ValueError: no message$"),
]


@pytest.mark.parametrize(("error", "told"), FAILURES)
def test_what_fails_in_a_query_is_said_in_a_line_with_its_place(error: BaseException, told: str) -> None:
    pipeline = make("totals")

    @pipeline.query
    def totals(flights: Frame) -> Any:
        raise error

    line = inspect.unwrap(totals).__code__.co_firstlineno + 2
    with pytest.raises(ConfigurationError, match=told) as raised:
        pipeline.build("session", Frame)
    assert str(raised.value).startswith(f"{__file__}, line {line}: pipeline 'flights', query 'totals': ")
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2
