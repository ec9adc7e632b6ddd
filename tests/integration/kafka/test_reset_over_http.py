"""`POST /v1/pipelines/P/reset` of a real server: planned, made once, and refused where nobody has allowed it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.docs.reading import commands
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.processes import objects, run_kcontrol, until
from tests.support.serving import client_of, serving

ROWS = {"delays": {0: [b"one", b"two"]}}
PAGE = "docs/rest.md"


def _bodies() -> list[dict[str, Any]]:
    """As the page has them: of the plan, and of the reset."""
    block = next(each for each in blocks_of(PAGE) if "test_reset_over_http" in each.argument)
    return [json.loads(words[words.index("--json") + 1]) for words in commands(block.text)]


def test_a_stopped_pipeline_goes_back(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    log = StepsMaker(settings, topic_factory)
    for step in (1, 2, 3):
        log.step(step, ROWS)
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    plan, body = _bodies()
    path = f"/v1/pipelines/{PIPELINE}/reset"
    with serving(tmp_path) as process, closing(client_of(process)) as client:
        refused = client.post(path, json={"to_step": 1})
        assert (refused.status_code, "--allow-resets" in refused.text) == (409, True), refused.text
    with serving(tmp_path, "--allow-resets") as process, closing(client_of(process)) as client:
        unknown = client.post(path, json={"to_step": 9})
        assert (unknown.status_code, "has no step 9" in unknown.text) == (422, True), unknown.text
        planned = client.post(path, json=plan)
        assert planned.status_code == 200, planned.text
        facts = planned.json()
        assert {name: facts[name] for name in ("reset", "step", "void_from", "void_to", "rerun_steps")} == {
            "reset": False, "step": 4, "void_from": 2, "void_to": 3, "rerun_steps": 0,
        }  # fmt: skip
        assert facts["void_records"] == {log.topics["delays"]: 4}
        assert body["last_step"] == facts["void_to"]
        other = client.post(path, json={**body, "last_step": 2})
        assert (other.status_code, "plan the reset anew" in other.text) == (409, True), other.text
        assert client.post(path, json=body).json() == {**facts, "reset": True}
        again = client.post(path, json=body)
        assert (again.status_code, "already" in again.text) == (422, True), again.text
    told = "back to step 1: 2 to 3 are void (a wrong rate), by ana"
    until(lambda: told in run_kcontrol("steps", PIPELINE, cwd=tmp_path).stdout, "the reset is seen")
    for more in ([], ["--to", "3"]):
        lines = run_kcontrol("steps", PIPELINE, *more, cwd=tmp_path).stdout.splitlines()
        assert [line.endswith("  void since step 4") for line in lines] == [False, True, True, False][
            : len(lines)
        ]
        steps = objects(run_kcontrol("steps", PIPELINE, *more, "--json", cwd=tmp_path).stdout)
        assert [each.get("void_since", {}).get("by") for each in steps] == [None, "ana", "ana", None][
            : len(lines)
        ]
