"""How the driver's JVM starts: what kcontrol chooses, and that whatever its user has chosen stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 200
PROGRAM = """
import json, os, sys
from kcontrol.adapters.spark.session.build import session
spark = session("collector", "local[1]", json.loads(sys.argv[1]))
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
print(spark.conf.get("spark.driver.defaultJavaOptions", "unset"))
print(beans[0].getName())
process = spark.sparkContext._gateway.proc.pid
optimising, others = set(), set()
for each in os.listdir(f"/proc/{process}/task"):
    try:
        of = optimising if open(f"/proc/{process}/task/{each}/comm").read().startswith("C2 ") else others
        of.add(os.getpriority(os.PRIO_PROCESS, int(each)))
    except (FileNotFoundError, ProcessLookupError):
        pass  # A thread that has ended meanwhile.
print(*sorted(optimising), "/", *sorted(others))
"""


@pytest.mark.parametrize(
    ("settings", "defaults", "collector", "optimising"),
    [
        ("{}", "", "PS MarkSweep", 10),
        pytest.param(
            '{"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}', "", "Copy", 10, marks=pytest.mark.heavy
        ),
        (
            "{}",
            "spark.kcontrol.compilerNiceness 0\nspark.driver.defaultJavaOptions -XX:+UseG1GC -Dof=user",
            "G1 Young Generation",
            0,
        ),
    ],
)
def test_the_collector_is_the_one_that_was_chosen_and_the_optimising_compiler_gives_way(
    tmp_path: Path, settings: str, defaults: str, collector: str, optimising: int
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "JDK_JAVA_OPTIONS": ""}
    command = [sys.executable, "-c", PROGRAM, settings]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    *_, options, found, niceness = done.stdout.splitlines()
    assert found == collector
    own = os.nice(0)
    assert niceness == f"{max(own, optimising) if optimising else own} / {own}"
    assert not defaults or "-Dof=user" in options
