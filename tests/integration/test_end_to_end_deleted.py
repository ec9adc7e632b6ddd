"""A pipeline that was deleted and is run again under its name begins from nothing: with no
state, checkpoint or step of it."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kcontrol import StepConsumer
from kcontrol.settings.cluster import ClusterSettings
from tests.support.orders import PIPELINE_FILE, Orders
from tests.support.processes import run_kcontrol, until

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.heavy]

PATIENCE_S = 240.0
STEP_TIMEOUT_S = 5.0


def test_one_that_is_run_again_under_its_old_name_begins_from_nothing(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    orders = Orders(settings.bootstrap_servers, f"again-{secrets.token_hex(3)}")
    env = {**orders.env, "XDG_DATA_HOME": str(tmp_path / "home")}

    def command(*arguments: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S)

    def run() -> list[dict[str, Any]]:
        ran = command("run", str(PIPELINE_FILE), "--until-caught-up", "--master", "local[2]")
        assert ran.returncode == 0, ran.stderr
        return orders.steps()

    def totals() -> dict[bytes | None, bytes | None]:
        """The newest of each customer, which is state that all steps have made."""
        with StepConsumer(
            orders.name, settings, from_step=1, timeout=STEP_TIMEOUT_S, verify_digests=True
        ) as steps:
            return {record.key: record.value for step in steps for record in step.records["totals"]}

    orders.produce(1_500)
    before, made = run(), totals()
    assert len(before) >= 3
    deleted: list[CompletedProcess[str]] = []

    def is_deleted() -> bool:
        deleted.append(command("delete", orders.name, "--yes"))
        return deleted[-1].returncode == 0

    until(
        is_deleted,
        "its processes, which have just ended, are taken for dead",
        PATIENCE_S,
        lambda: deleted[-1].stderr,
    )
    assert all("kcontrol stop" in one.stderr for one in deleted[:-1])
    assert json.loads(command("list", "--json").stdout or "{}").get("pipeline") != orders.name

    after = run()
    assert [step["step"] for step in after] == list(range(1, len(after) + 1))
    read = [
        {(part["input"], part["partition"]): part["from"] for part in step["inputs"]}
        for step in (before[0], after[0])
    ]
    assert read[0] == read[1]
    assert sum(part["records"] for step in after for part in step["inputs"]) == sum(orders.produced.values())
    assert totals() == made, "not twice what it was: it was computed from no state"
