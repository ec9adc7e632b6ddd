"""What can be wrong with a query beyond its plan, found when it is bound, before anything runs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from kcontrol.adapters.spark.internals import analyzed, jvm_class, plan_of
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.definition.frames import FrameQuery, OutputMode
from kcontrol.definition.query_errors import in_one_line
from kcontrol.errors import ConfigurationError

_MODES = "org.apache.spark.sql.streaming.OutputMode"
_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_CHECKED = "spark.sql.streaming.unsupportedOperationCheck"
_STATE_WORKERS = (
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
)
"""What the processes import that Spark starts for transformWithState. If one can't,
Spark only says that they exited."""


def check_supported(frame: DataFrame, mode: OutputMode, query: str) -> None:
    """Raise ConfigurationError unless Spark can run the frame as a stream in this mode,
    as it would find when it starts."""
    spark = frame.sparkSession
    if spark.conf.get(_CHECKED, "true") == "true":
        output_mode = getattr(jvm_class(spark, _MODES), mode.capitalize())()
        try:
            jvm_class(spark, _CHECKER).checkForStreaming(analyzed(frame), output_mode)
        except PySparkException as error:
            raise ConfigurationError(
                f"query {query!r}: Spark can't run it as a stream with mode={mode!r}: {in_one_line(error)}"
            ) from error
    if any(node.name.startswith("TransformWithState") for node in nodes_in(plan_of(frame))):
        _check_state_workers(query)


def _check_state_workers(query: str) -> None:
    for name in _STATE_WORKERS:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise ConfigurationError(
                f"query {query!r}: transformWithState needs {name}, which this Python can't import: "
                f"{in_one_line(error)}; install kcontrol with what it depends on, protobuf among it"
            ) from error


@contextmanager
def told_of(item: FrameQuery) -> Iterator[None]:
    """What is found of a query is said with the file and line that it comes from."""
    where = f"{item.where}: " if item.where else ""
    try:
        yield
    except ConfigurationError as error:
        raise type(error)(f"{where}{error}") from error
    except PySparkException as error:
        raise ConfigurationError(f"{where}query {item.name!r}: {in_one_line(error)}") from error


@contextmanager
def no_streams_of_their_own() -> Iterator[None]:
    """While queries are asked for their frames, none may start a stream: its records would be in no step. The queries that
    another thread starts meanwhile are not theirs."""
    asking, kept = threading.get_ident(), ClassicDataFrame.__dict__["writeStream"]

    def refuse(frame: DataFrame) -> Any:
        if threading.get_ident() != asking:
            return kept.__get__(frame)
        raise ConfigurationError(
            "writeStream is not for a query: return the frame, and kcontrol writes it to the output, "
            "step by step"
        )

    ClassicDataFrame.writeStream = property(refuse)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        ClassicDataFrame.writeStream = kept  # type: ignore[method-assign]
