"""The Spark settings that kcontrol needs, as data: one table for building a session, printing
options and checking a session.

Most of them close a door through which Spark would run work again behind the step protocol's back, or keep
state in a form that can't be rolled back. Several are static: they have to be given when the application
starts, so a session that a user brings can only be refused, with a sentence that says what to give to
spark-submit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import SparkSession

from kcontrol.errors import SparkSettingError


class Need(StrEnum):
    """What breaks when a setting has another value."""

    CORRECTNESS = "correctness"
    """Output could be lost, doubled or differ when a step is run again: refused."""
    CLOCK = "clock"
    """Times in the output would depend on the machine: refused."""
    SPEED = "speed"
    """Only time is lost: warned of."""


def whole_number(name: str, text: str, wanted: str, most: int | None = None) -> int:
    """A setting's value, from 0 to `most`. wanted: what it must be, for the message. Raises SparkSettingError."""
    if not text.isascii() or not text.isdigit() or (most is not None and int(text) > most):
        raise SparkSettingError(f"Spark setting {name} is {text!r}: it must be {wanted}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Setting:
    """One Spark setting: what it must be, and why. `static` ones can't be set once the application runs."""

    name: str
    value: str
    need: Need
    static: bool
    why: str


_STATE = "spark.sql.streaming.stateStore."
CHANGELOGS = _STATE + "rocksdb.changelogCheckpointing.enabled"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "spark.task.maxFailures",
        "1",
        Need.CORRECTNESS,
        True,
        "a task that is run again would write its rows twice",
    ),
    Setting(
        "spark.stage.maxConsecutiveAttempts",
        "1",
        Need.CORRECTNESS,
        True,
        "a stage that is run again would write twice",
    ),
    Setting(
        "spark.speculation",
        "false",
        Need.CORRECTNESS,
        True,
        "a speculative copy of a task would write its rows twice",
    ),
    Setting(
        _STATE + "providerClass",
        _ROCKSDB,
        Need.CORRECTNESS,
        False,
        "only this state store can be rolled back",
    ),
    Setting(
        _STATE + "checkpointFormatVersion",
        "2",
        Need.CORRECTNESS,
        False,
        "version 1 gives wrong state after a rollback",
    ),
    Setting(
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "false",
        Need.CORRECTNESS,
        False,
        "Spark would run batches that are not steps",
    ),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        Need.CLOCK,
        False,
        "dates and times in rows would depend on the machine",
    ),
    Setting(
        "spark.sql.streaming.minBatchesToRetain",
        "100",
        Need.SPEED,
        False,
        "how many steps a node can go back without a checkpoint",
    ),
    Setting(
        "spark.sql.streaming.stopTimeout",
        "60s",
        Need.SPEED,
        False,
        "a query that does not stop must not block for ever",
    ),
    Setting(
        CHANGELOGS,
        "true",
        Need.SPEED,
        False,
        "uploads what changed, not the whole state",
    ),
    Setting(
        _STATE + "maintenanceInterval",
        "10s",
        Need.SPEED,
        False,
        "how often Spark takes whole snapshots of state, which all that is opened begins with",
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        Need.SPEED,
        True,
        "saves 40 ms for each Python stage",
    ),
    Setting(
        "spark.python.daemon.module",
        "kcontrol.adapters.spark.session.warm_daemon",
        Need.SPEED,
        True,
        "saves 45 ms of CPU for each task",
    ),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        _FILE_MANAGER,
        Need.SPEED,
        False,
        "halves the time of Spark's logs",
    ),
    Setting(
        "spark.sql.streaming.checkpoint.fileChecksum.enabled",
        "false",
        Need.SPEED,
        False,
        "halves the files that Spark writes",
    ),
)
"""All settings, in the order in which they are printed."""

_LOCAL_RETRIES = re.compile(r"local\[[^,\]]+,\s*([0-9]+)\s*\]\Z")


def check_master(master: str) -> None:
    """Refuse `local[N,M]` with M > 1: it runs failed tasks again whatever `spark.task.maxFailures` says."""
    match = _LOCAL_RETRIES.match(master)
    if match and int(match.group(1)) > 1:
        raise SparkSettingError(
            f"Spark setting spark.master is {master!r}: it runs a failed task again, which would write its "
            "rows twice; use 'local[N]' without a second number"
        )


def check_session(spark: SparkSession) -> list[str]:
    """Check a session that a user brought.

    Returns one sentence for each setting that only costs speed.
    Raises SparkSettingError naming every wrong setting, what was found and what is needed.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise SparkSettingError(
            "this is a Spark Connect session: kcontrol must run in the driver's own process; make the "
            "session with kcontrol.session() or with spark-submit"
        )
    master = spark.sparkContext.master or ""
    check_master(master)
    wrong: list[str] = []
    slow: list[str] = []
    for setting in SETTINGS:
        found = _found(spark, setting)
        if found is not None and found.lower() == setting.value.lower():
            continue
        if setting.name == "spark.task.maxFailures" and master.startswith("local["):
            continue  # Spark ignores it there: without a second number a task is never run again
        how = (
            "give it to spark-submit (see `kcontrol conf`)"
            if setting.static
            else "set it before kcontrol.attach()"
        )
        sentence = f"{setting.name} is {found!r} but must be {setting.value!r}, or {setting.why}; {how}"
        (slow if setting.need is Need.SPEED else wrong).append(sentence)
    if wrong:
        raise SparkSettingError("Spark settings that kcontrol can't work with: " + "; ".join(wrong))
    return slow


_SPARK_DEFAULTS = {
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "4",
}


def _found(spark: SparkSession, setting: Setting) -> str | None:
    default = _SPARK_DEFAULTS.get(setting.name)
    if setting.static:
        return spark.sparkContext.getConf().get(setting.name, default)
    return spark.conf.get(setting.name, default)


@contextmanager
def with_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """The session has this value for a while, for what takes it over meanwhile; then its own again."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def retained_batches(spark: SparkSession) -> int:
    """For how many batches Spark keeps a query's logs and state."""
    return int(spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100)
