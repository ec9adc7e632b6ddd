"""What Spark does behind one's back elsewhere than in `local[N]`: run tasks again, lose executors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_S = 280


@pytest.mark.parametrize("scenario", [pytest.param("rerun_task", marks=pytest.mark.heavy), "lost_executor"])
def test_scenario(settings: ClusterSettings, tmp_path: Path, scenario: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.integration.spark.other_master",
        scenario,
        settings.bootstrap_servers,
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-6_000:]
    assert done.stdout.endswith("OK\n")
