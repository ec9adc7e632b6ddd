"""What a JVM is asked before it is needed is there in this Spark, and names that are answered here mean what the JVM says."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_gateway import GatewayClient, is_instance_of
from pyspark.sql import SparkSession

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.internals import gateway_of, jvm_class
from kcontrol.adapters.spark.internals.known_names import BY_WHOLE_NAME, IMPORTED, PART_BY_PART, know_names


@pytest.mark.parametrize(
    "use", [internals.first_reflection, internals.first_parser, internals.first_compiler]
)
def test_this_spark_has_what_is_used_first(spark: SparkSession, use: Any) -> None:
    use(gateway_of(spark))


def test_this_spark_has_the_library_of_state(spark: SparkSession) -> None:
    internals.first_library(spark)
    assert jvm_class(spark, "org.rocksdb.RocksDB").rocksdbVersion().toString()


@pytest.mark.parametrize("name", [*BY_WHOLE_NAME, *PART_BY_PART, *IMPORTED.values()])
def test_there_is_a_class_of_each_name_that_is_known(spark: SparkSession, name: str) -> None:
    assert jvm_class(spark, "java.lang.Class").forName(name).getName() == name


@pytest.mark.parametrize(("short", "whole"), IMPORTED.items())
def test_a_short_name_is_what_pyspark_has_imported_by_it(spark: SparkSession, short: str, whole: str) -> None:
    gateway = gateway_of(spark)
    asked = gateway._gateway_client.send_command(f"r\nu\n{short}\n{gateway.jvm._id}\ne\n")
    assert asked == f"yc{whole}"


def test_names_that_are_known_are_not_asked_for_and_others_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, asked = gateway_of(spark), list[str]()
    know_names(gateway)
    send = GatewayClient.send_command

    def heard(client: GatewayClient, command: str, *rest: Any, **more: Any) -> Any:
        if command.startswith("r\nu\n"):
            asked.append(command.split("\n")[2])
        return send(client, command, *rest, **more)

    monkeypatch.setattr(GatewayClient, "send_command", heard)
    made = gateway.jvm.java.util.ArrayList()
    assert is_instance_of(gateway, made, "java.util.List")
    assert gateway.jvm.PythonSQLUtils.isTimestampNTZPreferred() in (True, False)
    assert asked == []
    assert gateway.jvm.java.util.TreeMap().size() == 0
    assert asked == ["java.util.TreeMap"]
