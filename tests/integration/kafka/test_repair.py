"""A log of steps on a real Kafka that records a step twice, as versions did that took a
broker's word for the end of a log."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol import StepConsumer
from kcontrol.apps.repair import accept_doubles, find_doubles
from kcontrol.errors import DamagedRecordError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.processes import until

DEADLINE_S = HANG_S


def test_a_doubled_step_is_listed_with_what_readers_saw_and_can_be_accepted(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    maker = StepsMaker(settings, topic_factory)
    maker.step(1, {"delays": {0: [b"a"]}})
    first = maker.step(2, {"delays": {0: [b"b", b"c"]}})
    maker.step(2, {"delays": {0: [b"b", b"c"]}})
    maker.step(3, {"delays": {0: [b"d"]}})

    # A commit is answered before its markers are written, and only then is it seen.
    until(
        lambda: len(asyncio.run(find_doubles(maker.settings, PIPELINE))) == 1,
        "the double is seen",
        DEADLINE_S,
    )
    (twice,) = asyncio.run(find_doubles(maker.settings, PIPELINE))
    assert (twice.double.kind, twice.double.step, twice.accepted) == ("step", 2, False)
    (void,) = twice.void
    assert (void.step, void.written) == (2, first.outputs)

    asyncio.run(accept_doubles(maker.settings, PIPELINE, [twice]))
    (twice,) = asyncio.run(find_doubles(maker.settings, PIPELINE))
    assert twice.accepted


def test_a_step_consumer_says_that_a_step_which_it_returned_is_recorded_again(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    maker = StepsMaker(settings, topic_factory)
    for step, value in ((1, b"a"), (2, b"b"), (2, b"b"), (3, b"c")):
        maker.step(step, {"delays": {0: [value]}})
    with StepConsumer(PIPELINE, maker.settings, timeout=DEADLINE_S) as consumer:
        assert [next(consumer).number, next(consumer).number] == [1, 2]
        with pytest.raises(DamagedRecordError, match=r"Step 2 .*is recorded again.*from_step=3"):
            next(consumer)
    with StepConsumer(PIPELINE, maker.settings, timeout=DEADLINE_S, from_step=3) as consumer:
        assert next(consumer).number == 3
