"""What kind inputs are of, and the schemas of a registry that the log holds, on the page of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import expect

from kcontrol.core.model import InputSchema, OutputSchema
from kcontrol.wire.addresses import GeneratorAddress
from tests.browser.conftest import Console, Run
from tests.support.scenes import Cluster

pytestmark = pytest.mark.browser


def test_an_input_that_is_no_topic_is_shown_with_its_kind_and_schemas_with_their_ids(run: Run) -> None:
    async def generated(cluster: Cluster) -> None:
        spec = cluster.clicks.spec
        clicks, users = spec.inputs
        made = replace(users, topic=GeneratorAddress(3, 10, 0, 0, 0, 0).text)
        await cluster.clicks.say(
            replace(spec, inputs=(clicks, made)),
            InputSchema("clicks", 0, 7, 18_120, "AVRO", "{}", ()),
            OutputSchema("clicks", "page-views", 9, "web.page-views-value", "AVRO", "{}"),
        )

    async def scenario(console: Console) -> None:
        await console.open()
        rows = console.panel("Inputs").get_by_role("table", name="Inputs").get_by_role("row")
        await expect(rows).to_have_count(3)
        await expect(rows.nth(1).get_by_role("cell").first).to_have_text("clicks")
        await expect(rows.nth(2).get_by_role("cell").first).to_have_text("users generator")
        schemas = console.panel("Schemas of the registry").get_by_role("listitem")
        await expect(schemas).to_have_text(
            [
                "id 7 in values of inputs, known from step 18120 on",
                "id 9 for output page-views, under web.page-views-value",
            ]
        )

    run(scenario, before=generated)


def test_without_a_registry_there_is_nothing_of_schemas(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        await expect(console.panel("Inputs")).to_be_visible()
        await expect(console.panel("Schemas of the registry")).to_have_count(0)

    run(scenario)
