"""What `kcontrol status` says of deliveries, and what a deliverer says of itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kcontrol.adapters.postgres.session import DatabaseAddress
from kcontrol.adapters.webhook.address import WebhookAddress
from kcontrol.apps.deliver.progress import Progress
from kcontrol.cli.deliveries import delivery_line, status_json
from kcontrol.views.deliveries import SILENT_MS, DeliveriesSeen, StandsBy, ToldDelivery, delivery_facts
from kcontrol.views.pipeline_facts import PipelineStatus
from tests.unit.views.test_deliveries import COMMITTED, TOLD, facts


def line(told: ToldDelivery, later_ms: int = 0) -> str:
    return delivery_line(facts(told, later_ms))


def test_a_line_says_how_far_it_is_and_what_is_not_as_it_should_be() -> None:
    assert line(TOLD) == "totals to postgresql totals, exactly_once: running, step 7, 2 behind"
    waits = replace(TOLD, lag_s=4.0, standing_by=(StandsBy("b", TOLD.at_ms),))
    assert line(waits).endswith("step 7, 2 behind by 4.0 s; standing by: b")
    assert line(TOLD, SILENT_MS + 1_000).endswith("; not heard of for 31 s")
    halted = replace(TOLD, state="halted", step=-1, reason="410 Gone")
    assert line(halted, SILENT_MS + 1_000) == "totals to postgresql totals, exactly_once: halted: 410 Gone"


def test_json_has_what_rest_answers_and_why_no_more_is_known() -> None:
    known = delivery_facts(DeliveriesSeen([TOLD]), COMMITTED, TOLD.at_ms)
    status = PipelineStatus.model_construct(pipeline="p", step=COMMITTED)
    told = json.loads(status_json(status, known, "no broker"))
    assert (told["pipeline"], told["deliveries_unknown"]) == ("p", "no broker")
    assert told["deliveries"] == [known[0].model_dump()]


def test_a_state_is_told_with_when_it_began() -> None:
    now_ms = 5
    progress = Progress(lambda: now_ms)
    now_ms = 7
    progress.running(3)
    now_ms = 9
    progress.running(4)
    assert (progress.facts.step, progress.facts.since_ms) == (4, 7)
    progress.halted("no table")
    assert progress.facts.since_ms == 9


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://etl@db:5432/shop?sslmode=require", "postgresql://db:5432/shop"),
        ("postgresql://etl@db/shop", "postgresql://db/shop"),
        ("postgresql:///shop?host=/var/run/postgresql", "postgresql:///shop"),
        ("postgresql://db", "postgresql://db/"),
    ],
)
def test_the_address_of_a_database_is_told_without_user_and_parameters(given: str, told: str) -> None:
    assert DatabaseAddress(given).url == told


def test_the_address_of_a_webhook_is_told_without_its_query() -> None:
    assert WebhookAddress("https://hooks.example.com:8443/orders?token=s3cret").shown == (
        "https://hooks.example.com:8443/orders"
    )
