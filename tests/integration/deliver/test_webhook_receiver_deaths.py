"""The receiver of a webhook is killed with SIGKILL at each place of a request's way, and started anew: nothing is lost, steps
stay in order, and what comes twice is the same request with the same key."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.admin.standing import GroupStanding
from kcontrol.adapters.webhook.address import WebhookAddress
from kcontrol.adapters.webhook.bodies import Cut
from kcontrol.adapters.webhook.target import WebhookOptions, WebhookTarget
from kcontrol.apps.deliver.delivery import Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import OUTPUT, Until, log_of, outputs
from tests.integration.kafka.steps_maker import PIPELINE
from tests.support.dice import seeded
from tests.support.patience import HANG_S
from tests.support.webhook_process import ANSWERED, CAME, KEPT, ReceiverProcess

PLACES = (CAME, KEPT, ANSWERED)
MANY_STEPS, KILLS = 70, 100
REQUESTS_OF_A_STEP = 4


def test_a_receiver_may_die_at_each_place(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    deaths = [(place, nth) for nth in (1, 3) for place in PLACES]
    _deliver(settings, topic_factory, tmp_path, 8, deaths)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_a_hundred_deaths_of_a_receiver(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    dice = seeded()
    _deliver(settings, topic_factory, tmp_path, MANY_STEPS, _random_deaths(dice))


def _random_deaths(dice: random.Random) -> list[tuple[str, int]]:
    """A step that was broken off begins anew: deaths within the second request never let it end, so the others bring it
    further."""
    return [(dice.choice(PLACES), dice.randint(1, 2 * REQUESTS_OF_A_STEP - 2)) for _ in range(KILLS)]


def _deliver(
    settings: ClusterSettings,
    topic_factory: TopicFactory,
    directory: Path,
    steps: int,
    deaths: list[tuple[str, int]],
) -> None:
    """All steps of a log, through these deaths, and what came of it."""
    log = log_of(range(1, steps + 1), settings, topic_factory)
    progress = Until(steps)
    with ReceiverProcess(directory) as hook, ThreadPoolExecutor(1) as pool:
        running = pool.submit(_live, log.settings, hook.url, progress)
        try:
            for place, nth in deaths:
                hook.start(place, str(nth))
                assert hook.until_dead() == -signal.SIGKILL
                assert not running.done(), running.exception()
            hook.start()
            running.result(HANG_S)
        finally:
            progress.stop()
        taken = hook.taken()
    doubles = _check(taken, steps)
    # Whoever was not told that a request was taken sends it again.
    assert doubles >= sum(place == KEPT for place, _ in deaths)


def _live(settings: ClusterSettings, url: str, progress: Until) -> None:
    options = WebhookOptions(WebhookAddress(url), "json", cut=Cut(records=4), has_start=True)
    standing = GroupStanding(settings, PIPELINE, OUTPUT, "deaths", silence_s=20)
    target = WebhookTarget(options, PIPELINE, OUTPUT, standing)
    patient = DeliveryOptions(poll_s=0.2, longest_wait_s=0.2)
    delivery = Delivery(settings, PIPELINE, OUTPUT, target, patient, progress, LogWatch(settings, PIPELINE))
    progress.stop = delivery.stop
    delivery.run()


def _check(taken: list[dict[str, str]], steps: int) -> int:
    """How many requests came again."""
    first: dict[str, str] = {}
    for each in taken:
        assert first.setdefault(each["key"], each["body"]) == each["body"]
    rows = [record["value"] for body in first.values() for record in json.loads(body)["records"]]
    of_steps = (outputs(step)[OUTPUT].values() for step in range(1, steps + 1))
    assert rows == [json.loads(value) for partitions in of_steps for values in partitions for value in values]
    counts = Counter(each["key"] for each in taken)
    return sum(count - 1 for count in counts.values())
