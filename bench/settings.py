"""What each Spark setting that kcontrol chooses for speed gains, and what others would that it leaves as Spark has them: the
same steps as kcontrol has all of them, and with one otherwise.

Runs with all settings and runs with one otherwise take turns; each run is a new process. The ratio is of the median
time from step to step with the setting otherwise to that of all runs with none: above 1 it is right as it is, and one near 1
says nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.kcontrol_side import periods_ms
from bench.plan import Measurement, Places
from bench.running import attached
from bench.topics import make_source

SOURCE = "settings"
PARTITIONS = CORES = 2
NONE = ""
"""Instead of what is otherwise: every setting is as kcontrol has it."""

_STREAMING = "spark.sql.streaming."
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
SPARK_HAS = {
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.python.unix.domain.socket.enabled": "false",
    _STREAMING + "checkpointFileManagerClass": _MANAGER,
    _STREAMING + "checkpoint.fileChecksum.enabled": "true",
    _STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    _STREAMING + "stateStore.maintenanceInterval": "60s",
}
"""Settings that kcontrol chooses for speed, as Spark 4.3 has them by default."""

TRIED: Mapping[str, Mapping[str, str]] = {
    "larger batches of Arrow's": {"spark.sql.execution.arrow.maxRecordsPerBatch": "65536"},
    "memory off the heap": {
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "512m",
        "spark.sql.columnVector.offheap.enabled": "true",
    },
    "no code for whole stages": {"spark.sql.codegen.wholeStage": "false"},
    "shuffled rows not compressed": {"spark.shuffle.compress": "false"},
}
"""Settings that kcontrol leaves as Spark has them, as they were tried instead."""

OTHERWISE: Mapping[str, Mapping[str, str]] = {
    **{f"{name} {value}": {name: value} for name, value in SPARK_HAS.items()},
    **TRIED,
}
"""By what they are called, what runs have otherwise than kcontrol."""


@dataclass(frozen=True)
class SettingGain:
    """otherwise: what, as `OTHERWISE` calls it. ms: median time from step to step as kcontrol has all settings, and so."""

    otherwise: str
    workload: str
    step_records: int
    chosen_ms: float
    otherwise_ms: float

    @property
    def ratio(self) -> float:
        return self.otherwise_ms / self.chosen_ms


def turns(otherwise: Sequence[str]) -> Iterator[str]:
    """What each run has otherwise: nothing, one thing, another, nothing, one thing, another, ..., nothing."""
    for first in range(0, len(otherwise), 2):
        yield NONE
        yield from otherwise[first : first + 2]
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
        for otherwise in turns(tuple(OTHERWISE)):
            times_ms = _times_ms(places, measurement, otherwise)
            found.setdefault(otherwise, []).extend(times_ms)
            what = f"{measurement.workload} {measurement.step_records:,}"
            say(f"{what}, {otherwise or 'all as kcontrol has it'}: {median(times_ms):.0f} ms a step")
        chosen_ms = median(found.pop(NONE))
        gains += [
            SettingGain(
                otherwise, measurement.workload, measurement.step_records, chosen_ms, median(times_ms)
            )
            for otherwise, times_ms in found.items()
        ]
    return gains


def _times_ms(places: Places, measurement: Measurement, otherwise: str) -> list[float]:
    name = f"bench-settings-{uuid.uuid4().hex[:8]}"
    settings = OTHERWISE[otherwise] if otherwise != NONE else {}
    pipeline = attached(places, name, measurement.workload, measurement.step_records, settings)
    return periods_ms(places, measurement, name, pipeline)
