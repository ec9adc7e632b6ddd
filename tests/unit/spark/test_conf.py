"""Settings as data: printed for spark-submit, and refused where they contradict what correctness needs."""

from __future__ import annotations

import pytest

from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.session.conf import SETTINGS, Need, check_master, check_session
from kcontrol.errors import SparkSettingError


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 3]"])
def test_a_master_that_runs_failed_tasks_again_is_refused(master: str) -> None:
    with pytest.raises(SparkSettingError, match="runs a failed task again"):
        check_master(master)


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[4,1]", "spark://host:7077", "local-cluster[2,1,1024]", "yarn"]
)
def test_other_masters_are_not(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "setting",
    [setting for setting in SETTINGS if setting.need is not Need.SPEED],
    ids=lambda setting: setting.name,
)
def test_a_session_is_never_made_with_a_setting_that_breaks_it(setting: object) -> None:
    name: str = setting.name  # type: ignore[attr-defined]
    with pytest.raises(SparkSettingError, match=name):
        session(settings={name: "other"})


def test_spark_connect_is_refused() -> None:
    with pytest.raises(SparkSettingError, match="Spark Connect"):
        check_session(object())  # type: ignore[arg-type]
