"""How the driver's JVM starts: what kcontrol chooses, and that whatever its user has chosen stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 200
PROGRAM = """
import json, sys
from kcontrol.adapters.spark.session.build import session
spark = session("collector", "local[1]", json.loads(sys.argv[1]))
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
print(spark.conf.get("spark.driver.defaultJavaOptions", "unset"))
print(beans[0].getName())
"""


@pytest.mark.parametrize(
    ("settings", "defaults", "collector"),
    [
        ("{}", "", "PS MarkSweep"),
        ('{"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}', "", "Copy"),
        ("{}", "spark.driver.defaultJavaOptions -XX:+UseG1GC -Dof=user", "G1 Young Generation"),
    ],
)
def test_the_collector_is_the_one_that_was_chosen(
    tmp_path: Path, settings: str, defaults: str, collector: str
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "JDK_JAVA_OPTIONS": ""}
    command = [sys.executable, "-c", PROGRAM, settings]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    *_, options, found = done.stdout.splitlines()
    assert found == collector
    assert not defaults or "-Dof=user" in options
