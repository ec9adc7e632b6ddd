"""The profile of a real JVM: the flight recorder's own file, and the heap by class."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kcontrol.adapters.profiling.jvm import Jvm

FLIGHT_RECORDER = b"FLR\0"


def test_the_jvm_of_a_node_is_profiled_twice_over(spark: SparkSession) -> None:
    jvm = Jvm(spark.sparkContext._gateway)
    for _ in range(2):
        spark.range(1_000_000).selectExpr("sum(id)").collect()
        assert jvm.cpu_profile(0.5).startswith(FLIGHT_RECORDER)
    assert "java.lang.String" in jvm.heap_profile()
