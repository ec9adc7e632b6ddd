"""A real pipeline is held at limits, stands there, and goes on once it is released or nobody holds it any more."""

from __future__ import annotations

from pathlib import Path

from kcontrol.core.model import Hold, HoldPhase, HoldStatus, ReadLimit
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import Chain

LONG_MS, SHORT_MS = 600_000, 1_500


def test_a_pipeline_is_held_at_its_limits(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    chain = Chain(settings, tmp_path)
    source, out = topic_factory("source", partitions=2), topic_factory("out")
    chain.submit("relay", [source], out)

    def hold(*limits: tuple[int, int], released: bool = False, timeout_ms: int = LONG_MS, name: str) -> None:
        places = tuple(ReadLimit(source, *each) for each in limits)
        chain.say("relay", Hold("relay", "a test", 1, places, released, timeout_ms, name))

    with chain.running():
        chain.produce(source, 0, *"abc")
        chain.until_read("relay", source, 0, 3)
        hold((0, 5), (1, 0), name="limits")
        chain.until_held("relay", HoldStatus("limits", HoldPhase.NOTED, 0))
        chain.produce(source, 0, *"defgh")
        chain.produce(source, 1, *"xyz")
        stands = chain.until_read("relay", source, 0, 5)
        chain.until_held("relay", HoldStatus("limits", HoldPhase.HELD, stands.step))
        assert {(one.partition, one.to) for one in stands.inputs} == {(0, 5), (1, 0)}
        assert chain.look("relay")[1] == stands

        hold(released=True, name="released")
        chain.until_read("relay", source, 0, 8)
        chain.until_read("relay", source, 1, 3)

        # Whoever holds it dies: it goes on by itself.
        hold(timeout_ms=SHORT_MS, name="dies")
        chain.produce(source, 0, "i")
        chain.until_read("relay", source, 0, 9)
