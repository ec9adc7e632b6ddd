"""The archive of Java's classes: a node's JVM starts from it, and starts without it where it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session.class_archive import archive_path, make_archive

TIMEOUT_S = 200
FROM_ARCHIVE = "org.apache.spark.sql.classic.Dataset source: shared objects file (top)"
OF_STEPS = (
    "org.apache.spark.sql.catalyst.parser.SqlBaseParser",
    "org.apache.spark.sql.execution.datasources.v2.python.PythonScan",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
"""Classes that only what a node does loads."""
PROGRAM = """
import sys
from kcontrol.adapters.spark.session.build import session
spark = session("archive", "local[1]", {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"})
classes = spark.sparkContext._jvm.java.lang.Class
for name in sys.argv[2:]:
    classes.forName(name)
print(spark.range(5).count())
"""


def start_spark(cache: Path, log: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", PROGRAM, str(log), *OF_STEPS]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )


def test_a_session_starts_from_the_archive_that_was_made(tmp_path: Path) -> None:
    path = archive_path(find_java())
    if not path.is_file():
        assert make_archive() == path
    done = start_spark(path.parent.parent, tmp_path / "classes.log")
    assert done.stdout == "5\n"
    loaded = (tmp_path / "classes.log").read_text()
    assert FROM_ARCHIVE in loaded
    assert [each for each in OF_STEPS if f"{each} source: shared objects file (top)" not in loaded] == []


def test_an_archive_that_does_not_fit_is_done_without_and_without_a_word(tmp_path: Path) -> None:
    damaged = tmp_path / "kcontrol" / archive_path(find_java()).name
    damaged.parent.mkdir()
    damaged.write_bytes(b"not an archive" * 10_000)
    done = start_spark(tmp_path, tmp_path / "classes.log")
    assert done.stdout == "5\n"
    assert "archive" not in done.stderr
    assert FROM_ARCHIVE not in (tmp_path / "classes.log").read_text()
