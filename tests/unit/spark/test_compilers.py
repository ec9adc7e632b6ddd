"""Whose niceness is whose: what can be set, and whom it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.spark.session.compilers import (
    NICENESS_SETTING,
    compiler_niceness,
    compilers_option,
    let_compilers_give_way,
)
from kcontrol.errors import SparkSettingError


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
