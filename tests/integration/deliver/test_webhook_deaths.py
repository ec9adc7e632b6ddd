"""Deliverers that are killed before and after a request is answered: nothing is lost, steps stay in order, and what came twice
is the same request with the same key."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import secrets
import signal
from typing import Any

import pytest

from kcontrol.adapters.kafka.admin.standing import GroupStanding
from kcontrol.adapters.webhook.address import WebhookAddress
from kcontrol.adapters.webhook.bodies import Cut
from kcontrol.adapters.webhook.target import WebhookOptions, WebhookTarget
from kcontrol.apps.deliver.delivery import Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import OUTPUT, Until, ended, outputs
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.webhook_receiver import Answer, Received, Receiver, receiver

KILLS, STEPS = 30, 60
_SEED = secrets.randbits(32)
_context = multiprocessing.get_context("forkserver")


def _live(settings: ClusterSettings, url: str) -> None:
    options = WebhookOptions(WebhookAddress(url), "json", cut=Cut(records=4), has_start=True)
    standing = GroupStanding(settings, PIPELINE, OUTPUT, "deaths", silence_s=6)
    target = WebhookTarget(options, PIPELINE, OUTPUT, standing)
    progress, watch = Until(STEPS), LogWatch(settings, PIPELINE)
    delivery = Delivery(
        settings, PIPELINE, OUTPUT, target, DeliveryOptions(poll_s=0.2, longest_wait_s=0.5), progress, watch
    )
    progress.stop = delivery.stop
    delivery.run()


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_nothing_is_lost_and_doubles_can_be_told(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    dice = random.Random(_SEED)
    print(f"seed {_SEED}")  # noqa: T201 - shown by pytest when the test fails
    log = StepsMaker(settings, topic_factory)
    for step in range(1, STEPS + 1):
        log.step(step, outputs(step))
    came: list[Received] = []
    with receiver() as hook:
        killed = 0
        while not _whole(hook):
            process = _context.Process(target=_live, args=(log.settings, hook.url))
            if killed < KILLS:
                _kill_at(hook, process, dice.randint(1, 6), before_answer=dice.random() < 0.5)
            process.start()
            code = ended(process)
            assert code in (0, -signal.SIGKILL)
            killed += code != 0
        came = hook.taken
    assert killed == KILLS
    bodies: dict[str, bytes] = {}
    for each in came:
        assert bodies.setdefault(each.key, each.body) == each.body
    print(f"{len(came)} requests, {len(came) - len(bodies)} of them doubles")  # noqa: T201
    rows = [record["value"] for body in bodies.values() for record in json.loads(body)["records"]]
    wanted = [
        value for step in range(1, STEPS + 1) for values in outputs(step)[OUTPUT].values() for value in values
    ]
    assert rows == [json.loads(each) for each in wanted]


def _whole(hook: Receiver) -> bool:
    return any(each.said["step"] == STEPS and each.said["last_of_step"] for each in hook.taken)


def _kill_at(hook: Receiver, process: Any, nth: int, *, before_answer: bool) -> None:
    """At the nth request from now on: as it came, which the other side does not count as taken, or once it has."""
    left, take = nth, Receiver.take

    def deadly(received: Received) -> Answer:
        nonlocal left
        left -= 1
        if left == 0 and before_answer:
            os.kill(process.pid, signal.SIGKILL)
            return Answer(503)
        answer = take(hook, received)
        if left == 0:
            os.kill(process.pid, signal.SIGKILL)
        return answer

    hook.take = deadly  # type: ignore[method-assign]
