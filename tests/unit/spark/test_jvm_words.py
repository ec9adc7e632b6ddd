"""What Spark's JVM may say: errors, unless its user has configured logging, and none of
PySpark's tracebacks about nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.spark.session.jvm_words import CONFIGURATION, Words, logging_option

HERE = {"SPARK_CONF_DIR": "/nowhere"}

NOBODY_TOOK_IT = """Traceback (most recent call last):
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe"""

A_USERS = """Traceback (most recent call last):
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/mine/query.py", line 9, in send
BrokenPipeError: [Errno 32] Broken pipe"""

ANOTHER = """Traceback (most recent call last):
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
MemoryError"""

CUT_OFF = """Traceback (most recent call last):
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager"""


def heard(*texts: str) -> list[str]:
    said: list[str] = []
    words = Words(said.append)
    for text in texts:
        for line in text.splitlines():
            words.line(line)
    words.end()
    return said


def test_noise_is_left_out_and_what_stands_beside_it_is_not() -> None:
    java = "WARNING: Using incubator modules: jdk.incubator.vector"
    assert heard("before", java, NOBODY_TOOK_IT, "between", NOBODY_TOOK_IT, "after") == [
        "before",
        "between",
        "after",
    ]


def test_workers_that_tell_it_at_the_same_moment_are_left_out_too() -> None:
    lines = NOBODY_TOOK_IT.splitlines()
    in_turn = "\n".join(line for line in lines for _ in range(2))
    assert heard("before", in_turn, "between", lines[0], in_turn, lines[-1], "after") == [
        "before",
        "between",
        "after",
    ]


@pytest.mark.parametrize("lines", range(1, 4))
def test_what_the_end_cuts_off_is_left_out_where_it_can_be_nothing_else(lines: int) -> None:
    begun = "\n".join(NOBODY_TOOK_IT.splitlines()[:lines])
    assert heard("before", "Traceback (most recent call last):", begun) == ["before"]
    assert heard(begun, '  File "/mine/query.py", line 9, in send')[-1].endswith("in send")


def test_a_users_traceback_among_them_is_handed_on_with_them() -> None:
    mixed = "\n".join(
        line for pair in zip(NOBODY_TOOK_IT.splitlines(), A_USERS.splitlines(), strict=True) for line in pair
    )
    assert heard(mixed, "z") == [*mixed.splitlines(), "z"]


@pytest.mark.parametrize(
    "text", [A_USERS, ANOTHER, CUT_OFF, f"{CUT_OFF}\n{ANOTHER}", "  indented", ""], ids=range(6)
)
def test_every_other_line_is_handed_on_as_it_is(text: str) -> None:
    assert heard("a", text, "z") == ["a", *text.splitlines(), "z"]


def test_a_traceback_without_end_is_not_held_back_for_ever() -> None:
    said: list[str] = []
    words = Words(said.append)
    words.line("Traceback (most recent call last):")
    for _ in range(1_000):
        words.line("  File x")
    assert len(said) == 1_001


def test_errors_are_logged_and_nothing_else_where_nobody_has_configured_it() -> None:
    assert (
        logging_option({"spark.driver.extraJavaOptions": "-Xss4m"}, HERE)
        == f'"-Dlog4j2.configurationFile={CONFIGURATION}"'
    )
    assert "rootLogger.level = error" in CONFIGURATION.read_text()


def test_who_has_configured_logging_keeps_it(tmp_path: Path) -> None:
    assert (
        logging_option({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine.xml"}, HERE) == ""
    )
    assert (
        logging_option(
            {}, {**HERE, "PYSPARK_SUBMIT_ARGS": "--driver-java-options -Dlog4j.configurationFile=m"}
        )
        == ""
    )
    (tmp_path / "log4j2.xml").write_text("<Configuration/>")
    assert logging_option({}, {"SPARK_CONF_DIR": str(tmp_path)}) == ""
