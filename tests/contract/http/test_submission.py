"""A ready-made definition: submitted, changed in its settings, and refused with nothing written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.model import Logged, PipelineSpec
from kcontrol.wire.json import to_json
from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p"


async def written(api: Api) -> list[Logged]:
    return [each for each in await api.told.control.read_to_end() if isinstance(each.record, PipelineSpec)]


async def submit(api: Api, spec: PipelineSpec, status: int = 200, name: str = "p") -> Any:
    return await api.post(f"/v1/pipelines/{name}/spec", status, to_json(spec))


def test_a_new_pipeline_is_there_once_it_was_submitted_and_its_settings_can_be_changed(run: Run) -> None:
    async def scenario(api: Api) -> None:
        spec = await api.definition()
        made = await submit(api, spec)
        (logged,) = await written(api)
        assert (logged.record, logged.offset) == (spec, made["control_offset"])
        assert (await api.get(f"{P}/spec", min_control_offset=made["control_offset"]))["spec"] == to_json(
            spec
        )
        faster = replace(spec, policy=replace(spec.policy, max_delay_ms=7))
        again = await submit(api, faster)
        assert (await api.get(f"{P}/spec", min_control_offset=again["control_offset"]))["spec"] == to_json(
            faster
        )
        changed = await submit(api, replace(spec, stateful=not spec.stateful), 409)
        assert changed["type"] == "urn:kcontrol:problem:spec-changed"
        shared = await submit(api, replace(spec, pipeline="q"), 422, "q")
        assert "belongs to output 'out' of pipeline 'p'" in shared["detail"]
        assert len(await written(api)) == 1, "only the one that was faster"

    run(scenario)


def test_what_is_wrong_is_named_and_nothing_is_written(run: Run) -> None:
    async def scenario(api: Api) -> None:
        spec = await api.definition()
        assert "the request about 'q'" in (await submit(api, spec, 422, "q"))["detail"]
        assert "nodes = 0" in (await submit(api, replace(spec, nodes=0), 422))["detail"]
        secret = replace(
            spec, checkpoint=replace(spec.checkpoint, location="s3://me:hidden@b/c", every_ms=1_000)
        )
        refused = await submit(api, secret, 422)
        assert "holds credentials" in refused["detail"]
        assert "hidden" not in str(refused)
        for body in ({}, to_json(spec) | {"nodes": "1"}, to_json(spec) | {"more": 1}, [1]):
            await api.post(f"{P}/spec", 422, body)
        assert await written(api) == []

    run(scenario)
