"""A JVM that is there and answers nothing is found, with a real one that is stopped for a moment."""

from __future__ import annotations

import os
import signal

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.session.jvm_life import JvmLife, jvm_pid
from tests.support.processes import until

SILENCE_S = 2.0


def test_a_jvm_that_is_stopped_has_not_answered_until_it_goes_on(spark: SparkSession) -> None:
    pid = jvm_pid(spark)
    assert pid is not None
    life = JvmLife(spark, SILENCE_S)
    try:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: f"Spark's JVM (process {pid}) has not answered for " in life.wrong(), "it is found")
    finally:
        os.kill(pid, signal.SIGCONT)
        until(lambda: life.wrong() == "", "it answers again")
        life.close()
