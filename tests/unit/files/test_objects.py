"""Objects of S3: the same lines by ranges of the same object, what lies below a prefix, and what a store, or what it is asked
with, can do wrong."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import Iterator

import pytest

from kcontrol.adapters.files import s3_client
from kcontrol.adapters.files.facts import files_end, files_id, files_reach
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.url_watcher import UrlWatcher
from kcontrol.adapters.files.watcher import FileLooks, FileWatcher
from kcontrol.core.model import BadRecords, FailureKind, InputSpec
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError, StepFailedError
from kcontrol.wire.files import LINES_ID, FileAddress, files_of, version_in
from tests.support.objects_server import SECRET, ObjectsServer, serving_objects

LINES = [b'{"n": %d, "pad": "%s"}' % (n, b"x" * (n % 90)) for n in range(3_000)]
DATA = b"\n".join(LINES)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectsServer]:
    """Asked once for each thing: what is tried again is of no interest here."""
    monkeypatch.setattr(s3_client, "ATTEMPTS", 1)
    with serving_objects(page_keys=2) as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        s3_client.forget_client()
        yield found
        s3_client.forget_client()


def address(uri: str, pattern: str = "") -> str:
    return FileAddress(uri, pattern, growing=False, header=False, max_line_bytes=10_000).text


def item_of(topic: str, id_: str) -> InputSpec:
    return InputSpec("orders", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")


def lines_of(topic: str, id_: str, *ranges: tuple[int, int]) -> list[bytes]:
    read = read_lines("orders", topic, id_, [(0, lo, hi) for lo, hi in ranges])
    return [row["value"] for batch in read for row in batch.to_pylist()]


def test_ranges_of_one_object_give_each_line_once_and_fetch_little_else(store: ObjectsServer) -> None:
    topic = address(store.put("in/a b+ü.ndjson", DATA))
    id_ = files_id("orders", topic, "")
    assert version_in(id_).size_bytes == files_end("orders", topic) == len(DATA)
    cuts = [0, 10, 5_000, 5_001, 100_000, len(DATA)]
    assert lines_of(topic, id_, *itertools.pairwise(cuts)) == LINES
    store.asked.clear()
    assert lines_of(topic, id_, (5_000, 5_100))
    assert sum(hi - lo for lo, hi in store.asked) <= 3 << 16


def test_what_is_below_a_prefix_is_read_in_the_order_of_its_keys_page_by_page(store: ObjectsServer) -> None:
    for key in (
        "in/2.txt",
        "in/10.txt",
        "in/1.txt",
        "in/_3.txt",
        "in/.4.txt",
        "in/5.csv",
        "in/deeper/6.txt",
        "in/",
    ):
        store.put(key, f"{key}\n".encode())
    store.put("in/0.txt", b"")
    store.put("inner/7.txt", b"other\n")
    for uri in ("s3://spool/in", "s3://spool/in/"):
        topic = address(uri, "*.txt")
        assert files_id("orders", topic, "") == LINES_ID
        end = files_end("orders", topic)
        assert lines_of(topic, LINES_ID, (0, end)) == [b"in/1.txt", b"in/10.txt", b"in/2.txt"]
    assert store.pages >= 4
    store.put("top.txt", b"one\n")
    assert lines_of(address("s3://spool", "*.txt"), LINES_ID, (0, 4)) == [b"one"]


def test_an_object_that_is_another_is_told_in_the_middle_of_a_read(store: ObjectsServer) -> None:
    topic = address(store.put("a", DATA))
    id_ = files_id("orders", topic, "")
    assert lines_of(topic, id_, (0, 100))
    store.put("a", DATA[:-1] + b"!")
    with pytest.raises(
        InputGoneError, match=r"input 'orders': s3://spool/a is another object.*resume the pipeline"
    ):
        lines_of(topic, id_, (100, 200))
    store.faults["deaf"] = 1
    with pytest.raises(InputGoneError, match=r"s3://spool/a is another object: it is \d+ bytes"):
        lines_of(topic, id_, (100, 200))
    assert "is another object" in files_reach(item_of(topic, id_)).topic_id
    store.put("a", b"")
    with pytest.raises(InputGoneError, match="is another object"):
        lines_of(topic, id_, (100, 200))
    store.put("a", DATA)
    assert files_reach(item_of(topic, id_)).topic_id == id_
    del store.buckets["spool"]["a"]
    with pytest.raises(InputGoneError, match=r"input 'orders': s3://spool/a is not there"):
        lines_of(topic, id_, (100, 200))
    assert files_id("orders", topic, id_) == id_


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "denied",
            r"may not be read with these credentials: S3 answers 403 AccessDenied; they need s3:GetObject",
        ),
        ("wrong_key", "may not be read with these credentials: S3 answers 403 SignatureDoesNotMatch"),
        ("expired", "may not be read with these credentials: S3 answers 400 ExpiredToken"),
        ("archived", "is archived"),
        ("whole", "gives no ranges"),
        ("packed", "is stored compressed .gzip."),
        ("no_tag", "gives no ETag"),
        ("other", "gives no ranges"),
    ],
)
def test_what_can_not_be_read_is_refused_in_words_without_secrets(
    store: ObjectsServer, fault: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic = address(store.put("a", DATA))
    store.faults[fault] = 1
    with pytest.raises(ConfigurationError, match=f"input 'orders': s3://spool/a.*{said}") as refused:
        files_id("orders", topic, "")
    assert SECRET not in str(refused.value) + caplog.text
    assert version_in(files_id("orders", topic, "")).size_bytes == len(DATA)


@pytest.mark.parametrize("fault", ["away", "slow_down", "short", "cut_off", "hang"])
def test_what_passes_is_tried_again_by_a_step_that_is(
    store: ObjectsServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = address(store.put("a", DATA))
    id_ = files_id("orders", topic, "")
    store.faults[fault] = 1
    with monkeypatch.context() as set_:
        set_.setattr(s3_client, "READ_TIMEOUT_S", 0.2 if fault == "hang" else s3_client.READ_TIMEOUT_S)
        s3_client.forget_client()
        with pytest.raises(StepFailedError, match="s3://spool/a") as failed:
            lines_of(topic, id_, (0, 100))
    assert failed.value.kind is FailureKind.LOST
    s3_client.forget_client()
    assert lines_of(topic, id_, (0, 10)) == LINES[:1]


def test_bytes_of_another_range_are_not_taken_for_those_that_were_asked_for(store: ObjectsServer) -> None:
    topic = address(store.put("a", DATA))
    id_ = files_id("orders", topic, "")
    [line] = lines_of(topic, id_, (5_000, 5_100))[:1]
    store.faults["other range"] = 1
    with pytest.raises(StepFailedError, match=r"S3 gave bytes \d+-\d+.* and was asked for") as failed:
        lines_of(topic, id_, (5_000, 5_100))
    assert failed.value.kind is FailureKind.LOST
    assert lines_of(topic, id_, (5_000, 5_100))[0] == line


def test_a_bucket_that_is_not_there_and_a_store_that_is_none(store: ObjectsServer) -> None:
    for topic in (address("s3://nowhere/a"), address("s3://nowhere/in", "*")):
        with pytest.raises(ConfigurationError, match=r"s3://nowhere.*there is no such bucket"):
            files_end("orders", topic)
    store.faults["other"] = 1
    with pytest.raises(
        ConfigurationError, match=r"s3://spool/in: S3 at 127.0.0.1:\d+ does not answer as S3 does"
    ):
        files_end("orders", address("s3://spool/in", "*"))
    assert files_end("orders", address("s3://spool/in", "*")) == 0
    topic = address(store.put("empty", b""))
    assert (files_end("orders", topic), lines_of(topic, files_id("orders", topic, ""), (0, 0))) == (0, [])


def test_nobody_there_is_a_passing_fault(store: ObjectsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://me:hidden@127.0.0.1:9")
    s3_client.forget_client()
    with pytest.raises(RetriableError, match=r"s3://spool/a: S3 at 127.0.0.1:9 gives no answer") as away:
        files_id("orders", address("s3://spool/a"), "")
    assert "hidden" not in str(away.value)


def test_what_the_client_is_given_is_refused_and_looked_for_again(
    store: ObjectsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = address(store.put("a", DATA))
    for name, value, said in (
        ("AWS_ENDPOINT_URL_S3", "nonsense", "what AWS's files or variables set: ValueError"),
        ("AWS_PROFILE", "nobody", "what AWS's files or variables set: ProfileNotFound"),
    ):
        with monkeypatch.context() as set_:
            set_.setenv(name, value)
            s3_client.forget_client()
            with pytest.raises(ConfigurationError, match=said):
                files_end("orders", topic)
    with monkeypatch.context() as set_:
        set_.delenv("AWS_ACCESS_KEY_ID")
        set_.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(ConfigurationError, match="without credentials, and none were found"):
            files_end("orders", topic)
    assert files_end("orders", topic) == len(DATA)


def test_too_many_objects_and_compressed_ones_are_refused(
    store: ObjectsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        store.put(f"in/{number}", b"one\n")
    monkeypatch.setattr("kcontrol.adapters.files.objects.MAX_FILES", 3)
    with pytest.raises(ConfigurationError, match="s3://spool/in has more than 3 objects"):
        files_end("orders", address("s3://spool/in", "*"))
    store.put("a/b.gz", b"one\n")
    for topic in (address("s3://spool/a/b.gz"), address("s3://spool/a", "*")):
        with pytest.raises(ConfigurationError, match=r"s3://spool/a/b\.gz is compressed"):
            files_end("orders", topic)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kcontrol\[s3\]'"):
        files_end("orders", address("s3://spool/a"))


def test_looks_at_a_prefix_tell_what_changed_until_it_is_what_it_was(store: ObjectsServer) -> None:
    for name in ("b", "c"):
        store.put(f"in/{name}", b"one\n")
    looks = FileLooks("orders", files_of(address("s3://spool/in", "*")), 0, None)
    assert looks.look() == (LINES_ID, 8)
    store.put("in/d", b"two")
    assert looks.look() == (LINES_ID, 11)
    for key, data, said in (
        ("in/b", b"One\n", "s3://spool/in/b is another object: it has 4 bytes and ETag"),
        ("in/d", b"two\n", "s3://spool/in/d is another object: it has 4 bytes and ETag"),
        ("in/a", b"new\n", "s3://spool/in/a has come before s3://spool/in/b by its name"),
        ("in/c", None, "s3://spool/in/c is not there any more"),
    ):
        objects = store.buckets["spool"]
        kept = dict(objects)
        objects |= {} if data is None else {key: data}
        if data is None:
            del objects[key]
        wrong, end = looks.look()
        assert said in wrong
        assert end == 11
        store.buckets["spool"] = kept
        assert looks.look() == (LINES_ID, 11)
    store.faults["away"] = 1
    with pytest.raises(RetriableError):
        looks.look()


@pytest.mark.parametrize("pattern", ["", "*"])
def test_an_object_that_changes_while_a_task_reads_it_is_told(store: ObjectsServer, pattern: str) -> None:
    uri = store.put("in/a", DATA)
    topic = address("s3://spool/in" if pattern else uri, pattern)
    reading = iter(
        read_lines("orders", topic, files_id("orders", topic, ""), [(0, 0, 10), (0, 10, len(DATA))])
    )
    assert next(reading).num_rows == 1
    store.at_next_range = lambda: store.put("in/a", DATA.upper())
    with pytest.raises(InputGoneError, match="s3://spool/in/a is another object than its steps have read"):
        list(reading)


def test_watchers_tell_all_at_once_and_then_only_what_changed(store: ObjectsServer) -> None:
    one = address(store.put("in/a", DATA))
    id_ = files_id("orders", one, "")

    async def of_one() -> list[tuple[str, int]]:
        watcher = UrlWatcher(item_of(one, id_), {0: 7}, look_s=0.01)
        found = []
        async for [seen], _ in watcher.arrivals():
            found.append((seen.topic_id, seen.to))
            if len(found) == 1:
                store.faults["away"] = 2
                store.put("in/a", DATA.upper())
            elif len(found) == 2:
                store.put("in/a", DATA)
            else:
                break
        return found

    async def of_all() -> list[tuple[str, int]]:
        item = item_of(address("s3://spool/in", "*"), LINES_ID)
        watcher = FileWatcher(item, {0: 7}, {}, pace_s=0.01)
        found = []
        async for [seen], _ in watcher.arrivals():
            found.append((seen.topic_id, seen.to))
            if len(found) == 1:
                store.put("in/b", b"more\n")
            elif len(found) == 2:
                store.put("in/a", DATA.upper())
            else:
                break
        return found

    first, second, third = asyncio.run(of_one())
    assert first == third == (id_, len(DATA))
    assert second[0].startswith("s3://spool/in/a is another object")
    first, second, third = asyncio.run(of_all())
    assert (first, second) == ((LINES_ID, len(DATA)), (LINES_ID, len(DATA) + 5))
    assert third[0].startswith("s3://spool/in/a is another object")
