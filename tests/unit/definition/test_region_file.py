"""Regions as people define them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.core.regions.model import DrainMode, RegionSettings, Trigger
from kcontrol.definition.region_file import region_settings
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import Names


def test_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "region.toml"
    file.write_text('region = "end-of-day"\npipelines = ["enrich", "totals"]\n')
    assert region_settings(file) == RegionSettings("end-of-day", ("enrich", "totals"))
    file.write_text(
        'region = "r"\npipelines = ["a"]\ntrigger = "operator_driven"\nperiod = "2 s"\ndrain_timeout = "3 s"\n'
        "reset_timeout = 4000\nmax_reset_attempts = 2\nkeep_cuts = 7\n"
    )
    assert region_settings(file) == RegionSettings(
        "r", ("a",), Trigger.OPERATOR_DRIVEN, (), 2_000, 3_000, 4_000, 2, 7
    )


def test_how_its_drains_are_made(tmp_path: Path) -> None:
    file = tmp_path / "region.toml"
    file.write_text('region = "r"\npipelines = ["a"]\ndrain = "stopped"\n')
    assert region_settings(file).drain is DrainMode.STOPPED


def test_who_may_ask_for_its_drains(tmp_path: Path) -> None:
    file = tmp_path / "region.toml"
    text = 'region = "r"\npipelines = ["a"]\nparticipants = ["mq"]\ntriggers = ["mq", "a"]\n'
    file.write_text(text + 'trigger = "operator_driven"\n')
    assert region_settings(file).triggers == ("mq", "a")
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="is periodic: make it operator_driven"):
        region_settings(file)


def test_a_region_that_is_drained_rarely_has_more_attempts(tmp_path: Path) -> None:
    file = tmp_path / "region.toml"
    file.write_text('region = "r"\npipelines = ["a"]\ntrigger = "operator_driven"\n')
    assert region_settings(file).max_reset_attempts == 1_000


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("region = ", "can't be read"),
        ('region = "R"\npipelines = ["a"]', "'R' is not allowed"),
        ('region = "r"', "pipelines: Field required"),
        ('region = "r"\npipelines = []', "0 members"),
        ('region = "r"\npipelines = ["a"]\nperiods = 1', "periods"),
        ('region = "r"\npipelines = ["a"]\nperiod = "0 s"', "period: must be longer"),
        ('region = "r"\npipelines = ["a"]\ntrigger = "never"', "choose from periodic"),
        ('region = "r"\npipelines = ["a"]\ndrain = "slow"', "choose from aligned, stopped"),
        ('region = "r"\npipelines = ["a"]\nkeep_cuts = 0', "keep_cuts is 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "region.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"region\.toml|region name") as raised:
        region_settings(file)
    assert word in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read"):
        region_settings(tmp_path / "none.toml")


def test_names_of_regions_in_kafka() -> None:
    names = Names("team")
    assert names.regions_topic() == "team.regions"
    assert (
        names.region_log_topic("steps") == names.region_transactional_id("steps") == "team.regions.log.steps"
    )
    assert not names.is_steps_topic(names.region_log_topic("steps"))
    assert not names.is_exchange_topic(names.region_log_topic("exchange"))
    assert Names("t", {"region_log_topic": "own.{region}"}).region_log_topic("a") == "own.a"
    for override in ("own", "own.{region}.log"):
        with pytest.raises(ConfigurationError, match="region"):
            Names("t", {"region_log_topic": override})
