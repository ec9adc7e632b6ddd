"""`kcontrol deliver` to a webhook: each step in order, at least once, told apart by keys, whoever dies or hangs when."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.adapters.webhook.address import signature
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import log_of, outputs
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.webhook_receiver import Answer, Receiver, receiver

HAS_IT = "at_least_once, from step"


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of((1, 2, 3), settings, topic_factory)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as there:
        yield there


def _asked(log: StepsMaker, directory: Path, hook: Receiver, *more: str) -> list[str]:
    (directory / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{log.settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    where = ("--to", hook.url, "--output", "delays", "--format", "json")
    return ["deliver", PIPELINE, *where, "--silence-timeout", "20", "--request-timeout", "5", *more]


def _values(*steps: int) -> list[dict[str, int]]:
    """Of these steps, in order of partition and offset."""
    return [
        json.loads(value) for step in steps for rows in outputs(step)["delays"].values() for value in rows
    ]


def test_steps_come_in_order_and_are_told_of(log: StepsMaker, hook: Receiver, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-key-of-words\n")
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer geheim\n")
    files = ("--signing-key-file", str(key), "--headers-file", str(headers))
    asked = _asked(log, tmp_path, hook, "--start", "2", "--batch-rows", "4", *files)
    with KcontrolProcess(*asked, log=tmp_path / "log", cwd=tmp_path) as process:
        hook.until(3)
        until(
            lambda: "step 3, 0 behind" in run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout,
            "it is told of",
            60,
        )
        assert process.terminate() == 0
        assert "geheim" not in process.text()
    assert hook.rows() == _values(2, 3)
    first = hook.taken[0]
    assert {name: first.said[name] for name in ("pipeline", "output", "step", "partition", "last_of_step")} == {
        "pipeline": PIPELINE, "output": "delays", "step": 2, "partition": 0, "last_of_step": False,
    }  # fmt: skip
    assert [len(each.said["records"]) for each in hook.taken] == [4, 2, 4, 2] * 2
    assert first.path == "/hooks/orders"
    assert first.headers["authorization"] == "Bearer geheim"
    at_s = int(first.headers["webhook-timestamp"])
    assert first.headers["webhook-id"] == first.key
    assert first.headers["webhook-signature"] == signature(b"a-key-of-words", first.key, at_s, first.body)
    shown = run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout
    assert (
        f"delivery   delays to webhook {hook.url.removeprefix('http://')}, at_least_once: stopped, step 3"
        in shown
    )

    # The next one goes on behind it, without being told where.
    log.step(4, outputs(4))
    sent = len(hook.taken)
    with KcontrolProcess(*_asked(log, tmp_path, hook), log=tmp_path / "log", cwd=tmp_path):
        hook.until(4)
    assert {each.said["step"] for each in hook.taken[sent:]} == {4}


def test_what_passes_is_waited_out_with_the_same_requests(
    log: StepsMaker, hook: Receiver, tmp_path: Path
) -> None:
    hook.answers.extend([Answer(204), Answer(503, {"Retry-After": "1"}, "busy"), Answer(204), Answer(429)])
    asked = _asked(log, tmp_path, hook, "--start", "1", "--batch-rows", "4")
    with KcontrolProcess(*asked, log=tmp_path / "log", cwd=tmp_path) as process:
        hook.until(2)
        process.says("answered 503: busy; trying again")
        assert process.terminate() == 0
    assert hook.rows()[: len(_values(1, 2))] == _values(1, 2)
    keys = hook.keys()
    # The step that was broken off began anew, with the keys that it had.
    assert keys[0] == keys[1] == hook.taken[1].key
    same = {each.key: each.body for each in hook.taken}
    assert all(each.body == same[each.key] for each in [*hook.taken, *hook.others])


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(422, text="no column key"), "refused with 422: no column key. Its step was not taken"),
        (Answer(401, {"WWW-Authenticate": "Bearer"}, "who are you?"), "refused with 401: who are you?"),
        (Answer(403), "refused with 403. Its step was not taken"),
        (Answer(302, {"Location": "/elsewhere"}), "answered 302, to /elsewhere. A POST does not follow"),
        (Answer(308, {"Location": "/elsewhere"}), "give the address itself"),
    ],
    ids=["422", "401", "403", "302", "308"],
)
def test_who_refuses_halts_it_and_the_step_comes_whole_when_it_is_started_again(
    log: StepsMaker, hook: Receiver, tmp_path: Path, answer: Answer, sentence: str
) -> None:
    hook.answers.extend([Answer(204), answer])
    asked = _asked(log, tmp_path, hook, "--start", "1")
    ended = run_kcontrol(*asked, cwd=tmp_path)
    assert ended.returncode == DeliveryHaltedError.exit_code, ended.stderr
    assert "step 1, partition 1, offsets" in ended.stderr
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
    with KcontrolProcess(*_asked(log, tmp_path, hook), log=tmp_path / "log", cwd=tmp_path):
        hook.until(1)
    assert [each.said["partition"] for each in hook.taken[:3]] == [0, 0, 1]
    assert {each.path for each in [*hook.taken, *hook.others]} == {"/hooks/orders"}


def test_a_receiver_without_room_is_waited_for(log: StepsMaker, hook: Receiver, tmp_path: Path) -> None:
    """As one whose disk is full says it."""
    hook.answers.extend([Answer(204), *(Answer(507, text="no room left") for _ in range(3))])
    asked = _asked(log, tmp_path, hook, "--start", "1", "--longest-wait", "1")
    with KcontrolProcess(*asked, log=tmp_path / "log", cwd=tmp_path) as process:
        process.says("answered 507: no room left; trying again")
        hook.until(2)
        process.says("the delivery goes on after")
        assert process.terminate() == 0
    assert hook.rows()[: len(_values(1, 2))] == _values(1, 2)
    assert len(hook.others) == 3


def test_another_goes_on_and_who_wakes_up_stands_by(log: StepsMaker, hook: Receiver, tmp_path: Path) -> None:
    asked = _asked(log, tmp_path, hook, "--start", "1", "--silence-timeout", "15")
    one = KcontrolProcess(*asked, log=tmp_path / "one", cwd=tmp_path)
    two = KcontrolProcess(*asked, log=tmp_path / "two", cwd=tmp_path)
    with one, two:
        hook.until(3)
        holder, other = (one, two) if HAS_IT in one.text() else (two, one)
        other.says("standing by")
        os.kill(holder.pid, signal.SIGSTOP)
        other.says(HAS_IT, 120)
        os.kill(holder.pid, signal.SIGCONT)
        holder.says("another process has taken this delivery over", 120)
        has_had_it = holder.text().count(HAS_IT)
        other.kill()
        until(lambda: holder.text().count(HAS_IT) > has_had_it, "the first one has it again", 120)
    in_order = [each.said["step"] for each in hook.taken]
    assert in_order == sorted(in_order)
    assert len(hook.keys()) == len(set(hook.keys()))


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ((), ConfigurationError, "nothing is known of an earlier delivery"),
        (("--start", "first", "--key", "a"), ConfigurationError, "--key says nothing to a webhook"),
        (("--start", "first", "--request-timeout", "11"), ConfigurationError, "half of the silence at most"),
        (("--start", "first", "--format", "avro"), ConfigurationError, "give their schema with --schema"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    log: StepsMaker, hook: Receiver, tmp_path: Path, more: tuple[str, ...], code: type, sentence: str
) -> None:
    ended = run_kcontrol(*_asked(log, tmp_path, hook, "--name", "new", *more), cwd=tmp_path)
    assert ended.returncode == code.exit_code, ended.stderr
    assert sentence in ended.stderr
    assert hook.taken == []


def test_nobody_there_is_given_up_in_the_end(log: StepsMaker, hook: Receiver, tmp_path: Path) -> None:
    asked = _asked(
        log, tmp_path, hook, "--start", "1", "--give-up-after", "1", "--to", "http://127.0.0.1:1/x"
    )
    ended = run_kcontrol(*asked, cwd=tmp_path)
    assert ended.returncode == TargetAwayError.exit_code, ended.stderr
    assert "ConnectError" in ended.stderr
