"""What is looked at before a reset, and behind its fence: what is missing is named, and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.leftovers import committed
from kcontrol.apps.owned_log import OwnedLog
from kcontrol.apps.reset import ResetPlan, plan_reset, reset_pipeline
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Checkpoint,
    ExchangeLayout,
    ExchangeRun,
    ExchangeSlice,
    ExchangeSpec,
    InputSlice,
    Layout,
    SavedPart,
)
from kcontrol.errors import (
    CheckpointError,
    CommitUnknownError,
    ConfigurationError,
    HaltedError,
    InputGoneError,
    KcontrolError,
    TopicError,
)
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.parts import make_pin, place
from tests.support.patience import HANG_S
from tests.support.processes import objects, run_kcontrol
from tests.support.topics import create_topic
from tests.support.transactions import TRANSACTION_MS

DIGEST = "0" * 32


@pytest.fixture
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """Of three steps, each of which has read a record of those that are in the topic of its input."""
    made = StepsMaker(settings, topic_factory)
    [read] = made.spec.inputs
    produce(settings, read.topic, 3)
    for step in (1, 2, 3):
        piece = InputSlice(read.name, read.topic, read.topic_id, 0, step - 1, step, 1, DIGEST)
        made.step(step, {"delays": {0: [b"one"]}}, inputs=(piece,))
    return made


def produce(settings: ClusterSettings, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for _ in range(count):
        producer.produce(topic, b"a record")
    assert producer.flush(HANG_S) == 0


def plan(log: StepsMaker, to_step: int, left: Collection[str] = (), own: Path | None = None) -> ResetPlan:
    return asyncio.run(plan_reset(log.settings, PIPELINE, to_step, left, own))


def in_the_log(log: StepsMaker) -> StepsView:
    return asyncio.run(committed(log.settings, PIPELINE))


def refused(
    log: StepsMaker, to_step: int, error: type[KcontrolError], said: str, own: Path | None = None
) -> None:
    """With a sentence, and the log as it was."""
    before = in_the_log(log)
    with pytest.raises(error, match=said) as why:
        plan(log, to_step, own=own)
    assert "Nothing was reset" in str(why.value)
    assert in_the_log(log) == before


# --- before anything is written -----------------------------------------------------------------------------


def test_input_that_is_read_again_must_be_there(log: StepsMaker) -> None:
    [read] = log.spec.inputs
    assert plan(log, 1).to_step == 1
    TopicAdmin(log.settings).delete_before(read.topic, {0: 2})
    said = f"input 'flights' .topic '{read.topic}', partition 0. is needed from offset 1 on and begins with 2"
    refused(log, 1, InputGoneError, said)
    assert plan(log, 2).to_step == 2


def test_a_topic_that_is_gone_or_was_made_anew_is_named(log: StepsMaker) -> None:
    admin, [read], output = TopicAdmin(log.settings), log.spec.inputs, log.topics["totals"]
    gone = "'%s' is not there any more, or was made anew"
    admin.delete(read.topic)
    refused(log, 2, TopicError, gone % read.topic)
    create_topic(log.settings, read.topic)
    produce(log.settings, read.topic, 3)
    refused(log, 2, InputGoneError, "input 'flights' .*is needed from offset 2 on and begins with 0")
    admin.delete(output)
    refused(log, 2, TopicError, gone % output)
    create_topic(log.settings, output, 2)
    refused(log, 2, TopicError, gone % output)


def test_files_of_the_checkpoint_that_is_gone_back_to_must_be_there(log: StepsMaker, tmp_path: Path) -> None:
    location, own = str(tmp_path / "checkpoints"), tmp_path / "own"
    saved = CheckpointStore().save(place(location, step=1), make_pin(tmp_path / "pin", {"state": b"one"}))
    log.define(replace(log.spec, stateful=True))
    part = SavedPart(0, 5, saved.manifest, saved.files, saved.size_bytes)
    log.save(Checkpoint(PIPELINE, 1, 1, -1, location, (part,), 0, 1, "", 1, 0, -1))
    found = plan(log, 2, own=own)
    assert (found.begin, found.rerun) == (1, 1)
    for file in (tmp_path / "checkpoints").rglob("*"):
        if file.is_file() and file.read_bytes() == b"one":
            file.unlink()
    said = "the checkpoint of step 1, .*of node 0: not all of its files are there. Give this host access to"
    refused(log, 2, CheckpointError, said, own)
    assert plan(log, 2).begin == 1, "a host that nodes' files are not on looks at none"


def test_rows_that_nodes_have_sent_each_other_must_be_there(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    log, topic = StepsMaker(settings, topic_factory), topic_factory("exchange")
    admin = TopicAdmin(log.settings)
    exchange = ExchangeSpec("by-user", topic, admin.get(topic, "it").topic_id, ("user",), "x.send", 0)
    log.define(replace(log.spec, stateful=True, exchanges=(exchange,)))
    produce(settings, topic, 6)
    for step in (1, 2, 3):
        sent = ExchangeRun(0, 2 * step - 2, 2 * step, 2, DIGEST)
        piece = ExchangeSlice("by-user", 0, sent.from_, sent.to, (sent,))
        log.step(step, {}, exchanges=(piece,), layout=Layout((), 1, (), (ExchangeLayout("by-user", 1, 1),)))
    assert plan(log, 2).rerun == 2
    admin.delete_before(topic, {0: 1})
    refused(log, 2, InputGoneError, "steps 1 to 2, .* offsets 0 to 4 of partition 0 .* are not all there")


def test_steps_that_are_recorded_twice_are_repaired_first(log: StepsMaker) -> None:
    log.step(3, {}, inputs=())
    refused(log, 1, HaltedError, "recorded twice: see kcontrol repair flights")


def test_a_pipeline_that_reads_what_would_be_void_is_named_and_left_behind_by_its_name(
    log: StepsMaker, tmp_path: Path
) -> None:
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{log.settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    [read], topic = log.spec.inputs, log.topics["delays"]
    for name, each in (("after", topic), ("beside", read.topic), ("quiet", log.topics["totals"])):
        log.define(replace(log.spec, pipeline=name, inputs=(replace(read, topic=each),)))
    refused(log, 1, ConfigurationError, f"pipeline 'after' reads topic '{topic}'. .*--leave-behind after. ")
    ask = ("reset", PIPELINE, "--to-step", "1")
    other = run_kcontrol(*ask, "--leave-behind", "beside", cwd=tmp_path)
    assert (other.returncode, "--leave-behind after" in other.stderr) == (2, True), other.stderr
    done = run_kcontrol(*ask, "--leave-behind", "after", cwd=tmp_path)
    assert (done.returncode, "left behind: pipeline 'after'" in done.stdout) == (0, True), done.stderr
    [*_, made] = objects(run_kcontrol("steps", PIPELINE, "--json", cwd=tmp_path).stdout)
    assert (made["step"], made["reset"]["left_behind"]) == (4, ["after"])


# --- behind the fence ---------------------------------------------------------------------------------------


def test_a_log_that_has_gone_on_since_it_was_planned_is_left_as_it_is(log: StepsMaker) -> None:
    planned = plan(log, 1)
    more = log.step(4, {})
    with pytest.raises(NotNowError, match=r"has gone on from step 3 to 4 .*Nothing was reset"):
        asyncio.run(reset_pipeline(log.settings, planned, "", "ana"))
    assert in_the_log(log).last == more


def test_whoever_begins_to_work_for_it_meanwhile_goes_on(
    log: StepsMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, before, fence = plan(log, 1), in_the_log(log), OwnedLog.fence

    async def fenced(owned: OwnedLog) -> tuple[tuple[int, int], StepsView]:
        found = await fence(owned)
        newer = KafkaTransaction(log.settings, PIPELINE)
        await newer.init_producer(TRANSACTION_MS)
        await newer.close()
        return found

    monkeypatch.setattr(OwnedLog, "fence", fenced)
    with pytest.raises(NotNowError, match=r"was started while it was being reset .*Nothing was reset"):
        asyncio.run(reset_pipeline(log.settings, planned, "", "ana"))
    monkeypatch.undo()
    assert in_the_log(log) == before
    assert asyncio.run(reset_pipeline(log.settings, planned, "", "ana")).step == 4


@pytest.mark.parametrize("is_made", [True, False])
def test_a_commit_without_an_answer_is_looked_for(
    log: StepsMaker, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    planned, before, commit = plan(log, 1), in_the_log(log), KafkaTransaction.commit_reset

    async def unanswered(*arguments: object) -> None:
        if is_made:
            await commit(*arguments)  # type: ignore[arg-type]
        raise CommitUnknownError("no answer")

    monkeypatch.setattr(KafkaTransaction, "commit_reset", unanswered)
    if is_made:
        made = asyncio.run(reset_pipeline(log.settings, planned, "one too many", "ana"))
        assert (made.step, in_the_log(log).last) == (4, made)
    else:
        with pytest.raises(CommitUnknownError):
            asyncio.run(reset_pipeline(log.settings, planned, "one too many", "ana"))
        assert in_the_log(log) == before
