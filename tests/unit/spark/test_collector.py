"""The parallel collector, unless somebody has chosen another one: Java starts with one only."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.spark.session.collector import PARALLEL, collector_option

HERE = {"SPARK_CONF_DIR": "/nowhere"}


def test_the_parallel_collector_is_chosen_where_nobody_has() -> None:
    assert (
        collector_option({"spark.driver.extraJavaOptions": "-Xss4m -XX:+UseStringDeduplication"}, HERE)
        == PARALLEL
    )


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_choice_among_the_settings_counts(name: str) -> None:
    assert collector_option({name: "-Xss4m -XX:+UseG1GC -XX:MaxGCPauseMillis=50"}, HERE) == ""


@pytest.mark.parametrize(
    "name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS"]
)
def test_a_choice_in_the_environment_counts(name: str) -> None:
    assert collector_option({}, {**HERE, name: "-XX:+UseZGC"}) == ""


def test_a_choice_in_spark_defaults_counts(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:+UseShenandoahGC\n")
    assert collector_option({}, {"SPARK_CONF_DIR": str(tmp_path)}) == ""
    assert collector_option({}, {"SPARK_HOME": str(tmp_path)}) == PARALLEL
