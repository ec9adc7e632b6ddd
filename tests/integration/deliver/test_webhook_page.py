"""docs/howto/webhook.md as it is written there, with another address."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.docs.expected import missing
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.webhook_receiver import receiver

PAGE = "docs/howto/webhook.md"
HOST, URL = "hooks.example.com/orders", "https://hooks.example.com/orders"
FORMAT = ("--format", "json")
"""The pipeline of the test has no format of its own."""


def test_the_page_comes_true(settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path) -> None:
    maker = StepsMaker(settings, topic_factory)
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{maker.settings.prefix}"\n'
    )
    begin, shown = (each for each in blocks_of(PAGE) if each.rule == "run by")
    for step in (1, 2):
        maker.step(step, {"totals": {0: [json.dumps({"customer": "ada", "orders": step}).encode()]}})
    with receiver() as hook:
        words = shlex.split(begin.text.replace(URL, hook.url).replace(" orders ", f" {PIPELINE} "))
        with KcontrolProcess(*words[1:], *FORMAT, log=tmp_path / "log", cwd=tmp_path) as process:
            hook.until(2)
            wanted = shown.text.replace(HOST, hook.url.removeprefix("http://"))

            def told() -> bool:
                return missing(wanted, run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout) is None

            until(told, "kcontrol status shows what the page does", HANG_S, process.text)
            assert process.terminate() == 0
        assert [each["orders"] for each in hook.rows()] == [1, 2]
