"""docs/howto/reset.md: the program that is told of a reset, word for word."""

from __future__ import annotations

from typing import Any

import kcontrol
from kcontrol.apps.step_consumer import Step, StepConsumer
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.processes import until

PAGE = "docs/howto/reset.md"
NOTHING_COMES_S = 0.5


class Sink:
    """What the page's program has made of steps."""

    def __init__(self) -> None:
        [self._program] = [
            block for block in blocks_of(PAGE) if block.argument.endswith("test_reset_page.py")
        ]
        self.saved: list[int] = []
        self.undone: list[tuple[int, int]] = []

    def save(self, step: Step) -> None:
        self.saved.append(step.number)

    def undo(self, first: int, last: int) -> None:
        self.undone.append((first, last))
        self.saved = [step for step in self.saved if not first <= step <= last]

    def run(self, steps: StepConsumer) -> None:
        """Until nothing more has come for a while."""
        names: dict[str, Any] = {"steps": steps, "save": self.save, "undo": self.undo}
        exec(compile(self._program.text, str(self._program), "exec"), names)

    def until_saved(self, steps: StepConsumer, expected: list[int]) -> None:
        def run() -> bool:
            self.run(steps)
            return self.saved == expected

        until(run, f"steps {expected} are saved")


def test_a_program_undoes_what_is_void_and_goes_on(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    log, sink = StepsMaker(settings, topic_factory), Sink()
    for step in (1, 2, 3):
        log.step(step, {"delays": {0: [b"one"]}})
    with kcontrol.StepConsumer(PIPELINE, log.settings, timeout=NOTHING_COMES_S) as steps:
        sink.until_saved(steps, [1, 2, 3])
        log.reset(4, to_step=1)
        log.step(5, {"delays": {0: [b"one"]}})
        sink.until_saved(steps, [1, 5])
    assert sink.undone == [(2, 3)]
    log.reset(6, to_step=1)
    log.step(7, {"delays": {0: [b"one"]}})
    with kcontrol.StepConsumer(PIPELINE, log.settings, after_step=5, timeout=NOTHING_COMES_S) as steps:
        sink.until_saved(steps, [1, 7])
    [_, (first, last)] = sink.undone
    assert first <= 5 <= last
