"""Deliveries that a reset names: those that have void steps, and those that may get one before it is made; and what a deliverer
finds of resets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.reset import DELIVERIES, plan_reset
from kcontrol.core.log.resets import VoidSteps
from kcontrol.core.step.following import LogFacts
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import SILENT_MS, ToldDelivery
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker

TO_STEP = 2


@pytest.fixture
def settings_of(settings: ClusterSettings, topic_factory: TopicFactory) -> ClusterSettings:
    """Of a pipeline with one step more."""
    log = StepsMaker(settings, topic_factory)
    for step in range(1, TO_STEP + 2):
        log.step(step, {"delays": {0: [b"one"]}})
    return log.settings


def tell(settings: ClusterSettings, target: str, state: str, step: int, at_ms: int) -> None:
    told = ToldDelivery("delays", target, "postgresql", "exactly_once", state, step, 0.0, "", at_ms)
    DeliveryNotes(settings, PIPELINE).tell(told)


def test_a_delivery_at_work_is_named_before_it_has_a_void_step(settings_of: ClusterSettings) -> None:
    now_ms = SystemClock().now_ms()
    tell(settings_of, "at-work", "running", TO_STEP - 1, now_ms)
    tell(settings_of, "beyond", "stopped", TO_STEP + 1, now_ms)
    tell(settings_of, "stopped", "stopped", TO_STEP, now_ms)
    tell(settings_of, "killed", "running", TO_STEP, now_ms - SILENT_MS - 1)
    with pytest.raises(ConfigurationError, match="--leave-behind deliveries") as refused:
        asyncio.run(plan_reset(settings_of, PIPELINE, TO_STEP, (), None))
    said = str(refused.value)
    assert f"delays to at-work is at work and has step {TO_STEP - 1}: stop it" in said
    assert f"delays to beyond has step {TO_STEP + 1}" in said
    assert "delays to stopped" not in said
    assert "delays to killed" not in said
    plan = asyncio.run(plan_reset(settings_of, PIPELINE, TO_STEP, [DELIVERIES], None))
    assert [reader.name for reader in plan.readers] == [DELIVERIES]


def test_a_deliverer_finds_all_resets_of_its_log_and_none_of_another(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    log = StepsMaker(settings, topic_factory)
    for step in (1, 2, 3):
        log.step(step, {"delays": {0: [b"one"]}})
    log.reset(4, to_step=2)
    log.step(5, {})
    log.reset(6, to_step=5)
    watch = LogWatch(log.settings, PIPELINE)
    try:
        facts = watch.facts()
        assert facts == LogFacts(PIPELINE, facts.log_id, 1, 6)
        assert watch.with_resets(facts).resets == (VoidSteps(2, 4), VoidSteps(5, 6))
        assert watch.with_resets(replace(facts, log_id="another")).resets == ()
    finally:
        watch.close()
