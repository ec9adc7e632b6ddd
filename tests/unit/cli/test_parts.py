"""Parts of the command line that need no process: causes, lines for people, what caught up
means, what the log lets through."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kcontrol.apps.logs import OncePerWhile
from kcontrol.apps.show import logged_json, logged_line, step_line, time_text
from kcontrol.apps.supervisor.progress import Totals
from kcontrol.cli.main import known_cause, run_command
from kcontrol.core.model import EMPTY_DIGEST, InputSlice, Logged, Tombstone
from kcontrol.errors import HaltedError, RetriableError
from tests.support.samples import boundary, desired, output_slice


def test_the_cause_is_found_in_groups_of_groups() -> None:
    halted = HaltedError("it has halted")
    group = ExceptionGroup("outer", [ValueError("x"), ExceptionGroup("inner", [halted])])
    assert known_cause(group) is halted
    assert known_cause(ValueError("x")) is None


def test_an_unforeseen_error_is_a_sentence_and_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("kcontrol.cli.conf.conf.callback", broken)
    assert run_command(["conf"]) == 70
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: surprise" in said
    assert "Traceback" not in said


def test_a_group_of_known_errors_ends_with_their_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(**_: object) -> None:
        raise ExceptionGroup("session", [RetriableError("Kafka is away")])

    monkeypatch.setattr("kcontrol.cli.conf.conf.callback", away)
    assert run_command(["conf"]) == 3
    assert capsys.readouterr().err == "kcontrol: Kafka is away\n"


def test_step_line_counts_over_partitions() -> None:
    pieces = tuple(InputSlice("in", "t", "id", p, 0, 5, 5, EMPTY_DIGEST) for p in range(2))
    line = step_line(replace(boundary("p", 3, outputs=(output_slice("o", 0, 0, 4, 4),)), inputs=pieces))
    assert "in 10 -> out 4" in line
    assert line.split()[0] == "3"


def test_lines_of_control_records() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    logged = Logged(7, 1_700_000_000_123, desired("p", "r1"))
    assert "Desired" in logged_line(logged)
    assert '"offset":7' in logged_json(logged)
    assert '"record":"Desired"' in logged_json(logged)
    assert "p/claim/x" in logged_line(Logged(8, 0, Tombstone("p/claim/x")))
    assert '"record":"Tombstone"' in logged_json(Logged(8, 0, Tombstone("p/claim/x")))


def test_totals_add_up() -> None:
    totals = Totals()
    totals.add(boundary("p", 1, outputs=(output_slice("o", 0, 0, 4, 4),)))
    totals.add(boundary("p", 2, outputs=(output_slice("o", 0, 4, 7, 3),)))
    assert totals.steps == 2
    assert totals.written["out"] == 7


def record(name: str, level: int, message: str, created: float) -> logging.LogRecord:
    made = logging.LogRecord(name, level, __file__, 1, message, None, None)
    made.created = created
    return made


def test_chatty_libraries_repeat_themselves_only_once_in_a_while() -> None:
    filter_ = OncePerWhile(repeat_after_s=30)
    assert filter_.filter(record("aiokafka.client", logging.ERROR, "no connection", 100.0))
    assert not filter_.filter(record("aiokafka.client", logging.ERROR, "no connection", 101.0))
    assert filter_.filter(record("aiokafka.client", logging.ERROR, "no connection", 131.0))
    assert not filter_.filter(record("faust.app", logging.WARNING, "something", 100.0))
    assert not filter_.filter(record("py4j.clientserver", logging.ERROR, "an exception in Python", 100.0))
    assert filter_.filter(record("kcontrol.node", logging.WARNING, "something", 100.0))
    assert filter_.filter(record("kcontrol.node", logging.WARNING, "something", 100.1))
