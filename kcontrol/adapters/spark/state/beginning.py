"""What Spark must find in a query's empty directory to go on after a step that it never ran.

Only a query without state can begin so: what such a step gives depends on its input alone. Spark reads the
plans of the last two batches and the record of the last one when it starts
(MicroBatchExecution.populateStartOffsets), so these three are written as Spark would have written them: the
sources end at the steps before, and there is no state to name. The settings in a plan are those of the
session, in the form that this Spark gives them, because a restart takes them from there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import OFFSET_METADATA, java_session, jvm_class
from kcontrol.adapters.spark.state.assembling import QueryNeeds
from kcontrol.adapters.spark.state.formats import plan_text, record_text
from kcontrol.errors import ConfigurationError

_SHUFFLE = "spark.sql.shuffle.partitions"


def plan_settings(spark: SparkSession, shuffle_partitions: int) -> str:
    """The second line of a plan: no watermark, no time, and the settings that the query is to run with.

    Raises ConfigurationError if this Spark has no such thing.
    """
    made = jvm_class(spark, OFFSET_METADATA)
    try:
        told = json.loads(made.apply(0, 0, java_session(spark).conf()).json())
        told["conf"][_SHUFFLE] = str(shuffle_partitions)
    except Exception as error:
        raise ConfigurationError(
            f"this version of Spark does not say how it writes a batch's plan ({error}), so a pipeline "
            "without state can't begin after a step that it did not run; use the version that kcontrol "
            "names"
        ) from error
    return json.dumps(told, separators=(",", ":"))


def write_beginning(query: Path, step: int, sources: int, settings: str) -> None:
    """Make an empty directory one that Spark opens after `step`, which is greater than 0.

    sources: how many streams the query's plan reads. settings: as `plan_settings` gives them.
    """
    for log in ("offsets", "commits"):
        (query / log).mkdir()
    for before in range(max(1, step - 1), step + 1):
        plan = plan_text(settings, [before] * sources)
        (query / "offsets" / str(before - 1)).write_text(plan, encoding="utf-8")
    (query / "commits" / str(step - 1)).write_text(record_text(0, {}), encoding="utf-8")
    (query / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")


class Beginnings:
    """Of the queries of a node. needs: by name of those whose batches Spark records."""

    def __init__(self, spark: SparkSession, shuffle_partitions: int, needs: Mapping[str, QueryNeeds]) -> None:
        self._spark, self._shuffle_partitions, self._needs = spark, shuffle_partitions, needs

    def after(self, step: int) -> Callable[[str, Path], None]:
        """Given a query's name and its empty directory, makes it one that Spark opens after `step`, greater than 0. Raises
        as `plan_settings`."""

        def begin(name: str, query: Path) -> None:
            settings = plan_settings(self._spark, self._shuffle_partitions)
            write_beginning(query, step, self._needs[name].sources, settings)

        return begin
