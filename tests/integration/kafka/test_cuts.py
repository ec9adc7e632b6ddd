"""The newest cut of two pipelines is found in their logs on a real broker, and is one; and who is not drained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.cuts import find_cut
from kcontrol.apps.drain import drain
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.submit import submit
from kcontrol.cli.cut import cut
from kcontrol.core.model import (
    EMPTY_DIGEST,
    Hold,
    InputSlice,
    Layout,
    OutputLayout,
    Reason,
    StepBoundary,
    Token,
)
from kcontrol.definition.resolve import QueryFacts
from kcontrol.errors import ConfigurationError, NotFoundError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import BASE_MS, PARTITIONS, PIPELINE, StepsMaker
from tests.support.owning import commit_at_end
from tests.support.transactions import TRANSACTION_MS

READER = "sums"
_SHORT_S = 0.1


class ReaderOfDelays:
    """A pipeline that reads what `flights` writes to `delays`, and writes nothing."""

    def __init__(self, maker: StepsMaker, new_topic: TopicFactory) -> None:
        self.settings = maker.settings
        pipeline = Pipeline(
            READER,
            inputs=[KafkaInput("delays", topic=maker.topics["delays"])],
            outputs=[KafkaOutput("out", topic=new_topic("out"))],
        )
        facts = [QueryFacts("out", ("out",), "append", (), brings_key=False)]
        self.spec = asyncio.run(submit(self.settings, pipeline, facts))
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.step = 0

    def read(self, to: Mapping[int, int]) -> None:
        """A step that reads up to these offsets."""
        asyncio.run(self._commit(to))

    async def _commit(self, to: Mapping[int, int]) -> None:
        transaction = KafkaTransaction(self.settings, READER)
        try:
            producer = await transaction.init_producer(TRANSACTION_MS)
            await transaction.add_partitions(*producer, [(self.settings.names().steps_topic(READER), 0)])
            self.step += 1
            await commit_at_end(self.settings, transaction, producer, self._boundary(to, producer))
        finally:
            await transaction.close()
        self.positions |= to

    def _boundary(self, to: Mapping[int, int], producer: tuple[int, int]) -> StepBoundary:
        item = self.spec.inputs[0]
        inputs = tuple(
            InputSlice(
                *("delays", item.topic, item.topic_id, partition, begin, to.get(partition, begin)),
                to.get(partition, begin) - begin,
                EMPTY_DIGEST,
            )
            for partition, begin in self.positions.items()
        )
        return StepBoundary(
            pipeline=READER,
            step=self.step,
            token=Token(1, 1, *producer, (1,)),
            now_ms=BASE_MS + self.step,
            reason=Reason.RECORDS,
            fingerprint=self.spec.fingerprint,
            nodes=1,
            inputs=inputs,
            outputs=(),
            layout=Layout((), 1, (OutputLayout("out", 1, 1, "exact"),)),
            paused_inputs=(),
            opened_ms=BASE_MS,
            committed_ms=BASE_MS,
            skipped=(),
            watermark_moved=False,
        )


def test_the_newest_cut_is_found(
    settings: ClusterSettings, topic_factory: TopicFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maker = StepsMaker(settings, topic_factory)
    reader = ReaderOfDelays(maker, topic_factory)

    def found() -> dict[str, tuple[int, int]] | None:
        steps = asyncio.run(find_cut(maker.settings, [READER, PIPELINE], 100))
        return None if steps is None else {one.pipeline: (one.boundary.step, one.newest) for one in steps}

    maker.step(1, {"delays": {0: [b"a1"], 1: [b"b1"]}, "totals": {0: [b"t1"]}})
    with pytest.raises(NotFoundError, match="'sums' has no committed step"):
        found()
    reader.read({0: 1})
    assert found() is None
    reader.read({0: 2, 1: 1})
    assert found() == {PIPELINE: (1, 1), READER: (2, 2)}

    # The second step is in the log, and half of it is read: the two agree on what was before it.
    maker.step(2, {"delays": {0: [b"a2"], 1: [b"b2"]}})
    assert found() == {PIPELINE: (1, 2), READER: (2, 2)}
    reader.read({0: 3})
    assert found() == {PIPELINE: (1, 2), READER: (2, 3)}
    reader.read({1: 3})
    assert found() == {PIPELINE: (2, 2), READER: (4, 4)}

    # What was aborted lies between, and belongs to no step; a step that writes elsewhere moves the writer alone.
    maker.aborted(3, {"delays": {0: [b"x"]}})
    maker.step(3, {"totals": {1: [b"t3"]}})
    assert found() == {PIPELINE: (3, 3), READER: (4, 4)}

    servers, prefix = maker.settings.bootstrap_servers, maker.settings.prefix
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{servers}"\nprefix = "{prefix}"\n'
    )
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(cut, [PIPELINE, READER, "--json"], catch_exceptions=False)
    lines = [json.loads(line) for line in printed.output.splitlines()]
    assert [(line["pipeline"], line["step"]) for line in lines] == [(PIPELINE, 3), (READER, 4)]


def test_who_is_not_there_has_no_cut(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    maker = StepsMaker(settings, topic_factory)
    with pytest.raises(NotFoundError, match="no pipeline 'nobody'"):
        asyncio.run(find_cut(maker.settings, [PIPELINE, "nobody"], 100))
    topic = maker.topics["delays"]
    both = Pipeline(
        "loop",
        inputs=[KafkaInput("delays", topic=topic)],
        outputs=[KafkaOutput("flights", topic=maker.spec.inputs[0].topic)],
    )
    facts = [QueryFacts("flights", ("flights",), "append", (), brings_key=False)]
    asyncio.run(submit(maker.settings, both, facts))
    with pytest.raises(ConfigurationError, match="circle"):
        asyncio.run(find_cut(maker.settings, [PIPELINE, "loop"], 100))


def test_nobody_is_held_who_may_be_held_by_others(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    """No coordinator is there, so that no hold is ever noted."""
    maker = StepsMaker(settings, topic_factory)

    async def newest() -> Hold:
        async with pipeline_logs(maker.settings, PIPELINE) as logs:
            await logs.read()
            held = logs.view.hold()
            assert held is not None
            return held[1]

    async def say(hold: Hold) -> None:
        log = await KafkaControlLog.open(maker.settings, PIPELINE)
        try:
            await log.append([hold])
        finally:
            await log.close()

    with pytest.raises(NotFoundError, match="'flights' has no committed step"):
        asyncio.run(drain(maker.settings, [PIPELINE], _SHORT_S))
    maker.step(1, {"delays": {0: [b"a1"]}})
    with pytest.raises(RetriableError, match="flights \\(nobody is in charge of it\\)"):
        asyncio.run(drain(maker.settings, [PIPELINE], _SHORT_S))
    left = asyncio.run(newest())
    assert left.released

    asyncio.run(say(Hold(PIPELINE, "another", 1, (), False, 15_000, "renewed")))
    with pytest.raises(NotNowError, match="'flights' is held by another: ask again"):
        asyncio.run(drain(maker.settings, [PIPELINE], _SHORT_S))
    assert asyncio.run(newest()).request_id == "renewed"
