"""A class of kcontrol's own is compiled once for these jars, and loaded by every later JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import compiled

SOURCE = 'package kcontrol; public class Greeting { public String text() { return "hello"; } }'
GREETING = ["kcontrol.Greeting", "text"]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled, by name."""
    really, names = compiled._compiled, list[str]()

    def noted(spark: SparkSession, name: str, *more: Any) -> Any:
        names.append(name)
        return really(spark, name, *more)

    monkeypatch.setattr(compiled, "_compiled", noted)
    return names


def another_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had been compiled in this one."""
    monkeypatch.setattr(compiled, "_made", {})


def made(spark: SparkSession) -> list[str]:
    """The class by its own name, and the methods that it has itself. Py4j would call those of another class of this name."""
    found = compiled.compiled(spark, "kcontrol.Greeting", SOURCE)
    return [found.getName(), *[method.getName() for method in found.getDeclaredMethods()]]


def test_it_is_compiled_once_for_these_jars(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, compiling: list[str]
) -> None:
    for _ in range(2):
        another_jvm(monkeypatch)
        assert made(spark) == made(spark) == GREETING
    assert compiling == ["kcontrol.Greeting"]


def test_what_is_damaged_is_compiled_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, compiling: list[str], cache: Path
) -> None:
    another_jvm(monkeypatch)
    made(spark)
    (kept,) = cache.rglob("Greeting.class")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:100])
    another_jvm(monkeypatch)
    assert made(spark) == GREETING
    assert len(compiling) == 2
    assert kept.read_bytes() == whole


def test_where_nothing_can_be_kept_it_is_compiled_each_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, compiling: list[str], cache: Path
) -> None:
    monkeypatch.setattr(compiled, "place_of", lambda *_: None)
    for _ in range(2):
        another_jvm(monkeypatch)
        assert made(spark) == GREETING
    assert len(compiling) == 2
    assert not list(cache.rglob("*.class"))
