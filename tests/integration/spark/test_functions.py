"""Every function that this Spark has is known: its value follows from the records, is of
the step's clock, or is refused.

A new version of Spark that brings a function fails here until somebody has said which it is. What is said is
then held against what Spark's plans of the functions' own examples show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.query.other_values import other_values

CLOCK = frozenset(
    [
        "now",
        "current_timestamp",
        "current_date",
        "curdate",
        "localtimestamp",
        "unix_timestamp",
        "current_timezone",
    ]
)
"""Of the step's clock, or (the time zone) a setting that kcontrol insists on."""
REFUSED = frozenset(
    [
        *("current_time", "localtime", "version", "aes_encrypt", "java_method", "reflect", "try_reflect"),
        *("current_user", "session_user", "user"),
        *("current_catalog", "current_database", "current_schema", "current_path"),
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
    ]
)
OFF = frozenset(["python_worker_logs"])
"""Spark has them only with a setting of their own, and only beside streams: a table that is read beside the
inputs."""
OTHERS = frozenset(Path(__file__).with_name("functions_of_spark_4_3.txt").read_text(encoding="utf-8").split())
"""What they give follows from their arguments, as far as Spark's plans and two evaluations can show."""

NO_EXAMPLE = frozenset(
    [
        *("schema_of_avro", "from_avro", "to_avro", "from_protobuf", "to_protobuf"),
        *("unix_nanos", "measure", "python_worker_logs"),
    ]
)
"""Their examples need a file, a view or a type that is not there."""

_EXAMPLE = frozenset(
    [
        "schema_of_avro",
        "from_avro",
        "to_avro",
        "from_protobuf",
        "to_protobuf",
        "unix_nanos",
        "measure",
        "python_worker_logs",
    ]
)
"""Their examples need a file, a view or a type that is not there."""

_EXAMPLE = re.compile(r"> ((?:SELECT|select)\b.*?);\s*\n", re.DOTALL)
_OPERATORS = frozenset({"||", "!=", "<>", "case"})


def infos(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Name and examples of each function in Spark's own registries."""
    analysis: Any = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.analysis
    for registry in (analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()):
        names = registry.listFunction()
        for index in range(names.length()):
            identifier = names.apply(index)
            yield identifier.funcName(), registry.lookupFunction(identifier).get().getExamples()


def first_example(spark: SparkSession, name: str, examples: str) -> DataFrame | None:
    """The frame of the first example that Spark can analyze; None if there is none."""
    for text in _EXAMPLE.findall(examples + "\n") or [f"SELECT {name}('1')"]:
        try:
            return spark.sql(text)
        except PySparkException:
            continue
    return None


@pytest.fixture
def with_times(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.timeType.enabled")


def test_every_function_of_this_spark_is_known(spark: SparkSession) -> None:
    there = {name for name, _ in infos(spark)}
    there |= {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()} - _OPERATORS
    known = CLOCK | REFUSED | OFF | OTHERS
    assert sorted(there - known) == [], (
        "say of each whether its value follows from its arguments or the clock, or is refused"
    )
    assert sorted(known - there) == []
    assert len(known) == sum(map(len, (CLOCK, REFUSED, OFF, OTHERS))), "one is said twice"


def test_what_is_said_of_each_function_is_what_spark_makes_of_it(with_times: SparkSession) -> None:
    spark = with_times
    current_like = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    found: dict[str, str] = {}
    for name, examples in infos(spark):
        frame = first_example(spark, name, examples)
        if frame is None:
            continue
        plan = frame._jdf.queryExecution().analyzed()
        clock = plan.containsPattern(current_like)
        # Only what Spark marks in some way, and what is refused without a mark, is worth a walk.
        if (clock or not plan.deterministic() or name in REFUSED) and list(other_values(frame)):
            found[name] = "refused"
        else:
            found[name] = "clock" if clock else "other"
    said = {name: "clock" if name in CLOCK else "refused" if name in REFUSED else "other" for name in found}
    assert {name: (found[name], said[name]) for name in found if found[name] != said[name]} == {}
    assert found.keys() | NO_EXAMPLE == CLOCK | REFUSED | OFF | OTHERS


@pytest.mark.heavy
def test_functions_that_follow_from_their_arguments_give_the_same_twice(with_times: SparkSession) -> None:
    differing = []
    for name, examples in infos(with_times):
        if name not in OTHERS:
            continue
        values = []
        for _ in range(2):
            frame = first_example(with_times, name, examples)
            try:
                values.append(None if frame is None else repr(frame.collect()))
            except Exception as error:  # noqa: BLE001 - an example may show what fails; then both must
                values.append(type(error).__name__)
        if values[0] != values[1]:
            differing.append((name, values))
    assert differing == []
