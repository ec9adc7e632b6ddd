"""Which runs measure the settings, and that they are settings which kcontrol chooses for speed."""

from __future__ import annotations

from bench.settings import NONE, OTHERWISE, SPARK_HAS, TRIED, SettingGain, turns
from kcontrol.adapters.spark.session.conf import SETTINGS, Need

NOT_OF_SPEED_ALONE = {"spark.sql.streaming.minBatchesToRetain", "spark.sql.streaming.stopTimeout"}
"""How far one can go back and how long a stop may take: nothing that makes a step faster."""


def test_runs_with_every_setting_come_before_after_and_between_those_without_one() -> None:
    assert list(turns(("a", "b", "c"))) == [NONE, "a", "b", NONE, "c", NONE]


def test_every_setting_chosen_for_speed_is_measured_against_another_value() -> None:
    chosen = {
        one.name: one.value
        for one in SETTINGS
        if one.need is Need.SPEED and one.name not in NOT_OF_SPEED_ALONE
    }
    assert chosen.keys() == SPARK_HAS.keys()
    assert not chosen.items() & SPARK_HAS.items()
    tried = {name: value for settings in TRIED.values() for name, value in settings.items()}
    assert not tried.keys() & chosen.keys()
    assert set(OTHERWISE) >= set(TRIED)
    assert len(OTHERWISE) == len(SPARK_HAS) + len(TRIED)


def test_a_setting_gains_if_steps_take_longer_otherwise() -> None:
    assert SettingGain("a", "passthrough", 1_000, chosen_ms=100, otherwise_ms=150).ratio == 1.5
