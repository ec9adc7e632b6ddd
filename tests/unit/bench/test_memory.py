"""Figures of memory: processes are told apart, and peaks are of one process and of all of a kind at one
time."""

from __future__ import annotations

import pytest

from bench.memory import Peak, Size, peaks_of
from bench.process_kinds import kind_of


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["/usr/bin/java", "-cp", "x"], "JVM"),
        (["python", "-m", "kcontrol.adapters.spark.session.warm_daemon", "pyspark.worker"], "worker"),
        (["python", "-m", "pyspark.sql.streaming.python_streaming_source_runner"], "planner"),
        (["bash"], "other"),
        ([], "other"),
    ],
)
def test_processes_are_told_apart_by_their_command_lines(command: list[str], kind: str) -> None:
    assert kind_of(command) == kind


def test_a_peak_is_of_one_process_and_of_all_at_one_time() -> None:
    looks = [
        {"driver": [Size(5, 4)], "worker": [Size(6, 2), Size(4, 3)]},
        {"driver": [Size(6, 3)], "worker": [Size(7, 4)]},
        {"driver": [Size(2, 2)]},
    ]
    assert peaks_of(looks) == {"driver": Peak(1, 6, 4), "worker": Peak(2, 7, 5)}
