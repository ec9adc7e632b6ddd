"""Whose niceness is whose: what can be set, and whom it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kcontrol.adapters.spark.session.compilers import (
    NICENESS_SETTING,
    compiler_niceness,
    compilers_option,
    giving_way_from_the_start,
    let_compilers_give_way,
)
from kcontrol.errors import SparkSettingError
from tests.support.patience import HANG_S


@pytest.mark.parametrize("text", ["20", "-1", "", "low", "1.5"])
def test_a_niceness_that_there_is_not_is_refused_by_name(text: str) -> None:
    with pytest.raises(SparkSettingError, match=r"spark\.kcontrol\.compilerNiceness is .*from 0 to 19"):
        compiler_niceness({NICENESS_SETTING: text})


@pytest.mark.parametrize("line", ["{} 3", "{}=3", "  {} = 3 "])
def test_what_is_not_among_the_settings_may_be_in_sparks_own_file(tmp_path: Path, line: str) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"# mine\n{line.format(NICENESS_SETTING)}\nspark.x 1\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    assert compiler_niceness({}, environment) == 3
    assert compiler_niceness({NICENESS_SETTING: "4"}, environment) == 4


def test_nothing_is_asked_of_java_where_compilers_keep_their_weight() -> None:
    assert compilers_option(0) == ""


def test_a_jvm_that_somebody_else_has_started_or_that_is_gone_is_left_alone() -> None:
    class Gone:
        pid = 2**22 + 1

    class Gateway:
        proc = Gone()

    assert let_compilers_give_way(None, 19) == 0
    assert let_compilers_give_way(object(), 19) == 0
    assert let_compilers_give_way(Gateway(), 19) == 0


LEAST = 19
"""Whatever weight the tests themselves are run with, this is no more."""
COMPILES = """
import pathlib, sys, threading
there = threading.Event()
def compiles():
    pathlib.Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("C2 CompilerThread0")
    print(threading.get_native_id(), flush=True)
    there.wait()
threading.Thread(target=compiles, daemon=True).start()
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone gives threads a weight of their own")
def test_the_compilers_of_a_jvm_that_starts_give_way_before_it_has_started() -> None:
    with (
        giving_way_from_the_start(LEAST),
        subprocess.Popen([sys.executable, "-c", COMPILES], stdin=-1, stdout=-1, text=True) as jvm,
    ):
        assert jvm.stdout is not None
        thread = int(jvm.stdout.readline())
        until = time.monotonic() + HANG_S
        while os.getpriority(os.PRIO_PROCESS, thread) != LEAST:
            assert time.monotonic() < until, "nobody has looked at it"
            time.sleep(0.01)
        assert os.getpriority(os.PRIO_PROCESS, jvm.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        assert jvm.stdin is not None
        jvm.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone gives threads a weight of their own")
def test_a_thread_that_ends_while_it_is_looked_at_keeps_no_other_from_giving_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = Path.iterdir

    class Gateway:
        def __init__(self, proc: subprocess.Popen[str]) -> None:
            self.proc = proc

    def with_one_that_has_ended(self: Path) -> list[Path]:
        return [self / str(2**22 + 1), *listed(self)]

    monkeypatch.setattr(Path, "iterdir", with_one_that_has_ended)
    with subprocess.Popen([sys.executable, "-c", COMPILES], stdin=-1, stdout=-1, text=True) as jvm:
        assert jvm.stdout is not None
        thread = int(jvm.stdout.readline())
        assert let_compilers_give_way(Gateway(jvm), LEAST) == 1
        assert os.getpriority(os.PRIO_PROCESS, thread) == LEAST
        assert jvm.stdin is not None
        jvm.stdin.close()
