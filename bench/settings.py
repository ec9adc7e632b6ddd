"""What each Spark setting that kcontrol chooses for speed gains: the same steps with all of
them, and with one as Spark has it.

Runs with all settings and runs without one take turns; each run is a new process. The ratio is of the median
time from step to step without the setting to that of all runs with every setting: above 1 the setting gains,
and one near 1 gains nothing here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.kcontrol_side import periods_ms
from bench.plan import Measurement, Places
from bench.running import attached
from bench.topics import make_source

SOURCE = "settings"
PARTITIONS = CORES = 2
NONE = ""
"""Instead of the name of a setting: every setting is as kcontrol has it."""

_STREAMING = "spark.sql.streaming."
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
SPARK_HAS = {
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.python.unix.domain.socket.enabled": "false",
    _STREAMING + "checkpointFileManagerClass": _MANAGER,
    _STREAMING + "checkpoint.fileChecksum.enabled": "true",
    _STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    _STREAMING + "stateStore.maintenanceInterval": "60s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
"""Settings that kcontrol chooses for speed, as Spark 4.3 has them by default."""


@dataclass(frozen=True)
class SettingGain:
    """ms: median time from step to step with the setting as kcontrol has it and as Spark has it."""

    setting: str
    workload: str
    step_records: int
    chosen_ms: float
    default_ms: float

    @property
    def ratio(self) -> float:
        return self.default_ms / self.chosen_ms


def turns(settings: Sequence[str]) -> Iterator[str]:
    """The setting that each run is without: none, two settings, none, two settings, ..., none."""
    for first in range(0, len(settings), 2):
        yield NONE
        yield from settings[first : first + 2]
    yield NONE


def measure_settings(
    bootstrap_servers: str, measurements: Sequence[Measurement], say: Callable[[str], None]
) -> list[SettingGain]:
    """Every setting at every measurement. Raises RuntimeError when a pipeline stands still or loses
    records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(measurement.records for measurement in measurements)
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    gains = []
    for measurement in measurements:
        found: dict[str, list[float]] = {}
        for setting in turns(tuple(SPARK_HAS)):
            times_ms = _times_ms(places, measurement, setting)
            found.setdefault(setting, []).extend(times_ms)
            what = f"{measurement.workload} {measurement.step_records:,}"
            say(f"{what} without {setting or 'nothing'}: {median(times_ms):.0f} ms a step")
        chosen_ms = median(found.pop(NONE))
        gains += [
            SettingGain(setting, measurement.workload, measurement.step_records, chosen_ms, median(times_ms))
            for setting, times_ms in found.items()
        ]
    return gains


def _times_ms(places: Places, measurement: Measurement, without: str) -> list[float]:
    name = f"bench-settings-{uuid.uuid4().hex[:8]}"
    settings = {without: SPARK_HAS[without]} if without != NONE else {}
    pipeline = attached(places, name, measurement.workload, measurement.step_records, settings)
    return periods_ms(places, measurement, name, pipeline)
