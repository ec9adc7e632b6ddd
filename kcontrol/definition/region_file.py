"""A region as people define it: a TOML file with its name, its pipelines and its times.

region = "end-of-day"
pipelines = ["enrich", "totals", "alerts"]
trigger = "periodic"            # or "operator_driven": only when somebody asks
triggers = []                   # then: the members that may ask, besides persons
period = "60 s"                 # from the end of one drain to the beginning of the next
drain_timeout = "180 s"
reset_timeout = "180 s"
max_reset_attempts = 5
keep_cuts = 1000
participants = ["mq-bridge"]    # members that are no pipelines
participant_lease = "30 s"
drain = "aligned"               # or "stopped": pipelines stand until all have come to their cut
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kcontrol.core.regions.model import DrainMode, RegionSettings, Trigger, refused_settings
from kcontrol.definition.durations import PositiveDuration, duration_ms
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import check_pipeline_name, check_region_name

RARELY_DRAINED_ATTEMPTS = 1_000
_DEFAULTS = RegionSettings("", ())


class RegionFile(BaseModel):
    """What the file may say. trigger: `periodic`, or `operator_driven`, where drains are made when somebody asks. triggers:
    the pipelines and participants in whose name that may be, besides persons.

    period: from the end of one drain, or reset, to the beginning of the next. drain_timeout: a drain that takes longer is given
    up. reset_timeout: a reset that takes longer is tried again. max_reset_attempts: in a row, without a completed drain in
    between; by default 5, or 1,000 where drains are made when somebody asks. keep_cuts: so many of the newest stay in the
    log. participants: members that are no pipelines, and speak for themselves. participant_lease: one that says nothing for
    so long is taken for gone. drain: `aligned`, or `stopped`, where a pipeline that has come to its cut stands until all
    members have done their part.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    region: str
    pipelines: list[str]
    trigger: str = Trigger.PERIODIC.value
    triggers: list[str] = []
    period: PositiveDuration = _DEFAULTS.period_ms
    drain_timeout: PositiveDuration = _DEFAULTS.drain_timeout_ms
    reset_timeout: PositiveDuration = _DEFAULTS.reset_timeout_ms
    max_reset_attempts: int | None = None
    keep_cuts: int = _DEFAULTS.keep_cuts
    participants: list[str] = []
    participant_lease: PositiveDuration = _DEFAULTS.participant_lease_ms
    drain: str = DrainMode.ALIGNED.value


def _attempts(found: RegionFile) -> int:
    """A restart of any pipeline costs one, so a region that is drained rarely has more of them by default."""
    if found.max_reset_attempts is not None:
        return found.max_reset_attempts
    rarely = found.trigger == Trigger.OPERATOR_DRIVEN
    return RARELY_DRAINED_ATTEMPTS if rarely else _DEFAULTS.max_reset_attempts


def region_settings(file: Path) -> RegionSettings:
    """What a file defines. Raises ConfigurationError naming it and every part that is wrong."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        found = RegionFile(**content)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} can't be read: {error}") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        )
        raise ConfigurationError(f"{file}: {wrong}") from None
    if found.trigger not in set(Trigger):
        raise ConfigurationError(f"{file}: trigger is {found.trigger!r}: choose from {', '.join(Trigger)}")
    if found.drain not in set(DrainMode):
        raise ConfigurationError(f"{file}: drain is {found.drain!r}: choose from {', '.join(DrainMode)}")
    settings = RegionSettings(
        region=check_region_name(found.region),
        members=tuple(map(check_pipeline_name, [*found.pipelines, *found.participants])),
        trigger=Trigger(found.trigger),
        triggers=tuple(found.triggers),
        period_ms=duration_ms(found.period),
        drain_timeout_ms=duration_ms(found.drain_timeout),
        reset_timeout_ms=duration_ms(found.reset_timeout),
        max_reset_attempts=_attempts(found),
        keep_cuts=found.keep_cuts,
        participants=tuple(found.participants),
        participant_lease_ms=duration_ms(found.participant_lease),
        drain=DrainMode(found.drain),
    )
    refused = refused_settings(settings)
    if refused:
        raise ConfigurationError(f"{file}: {refused}")
    return settings
