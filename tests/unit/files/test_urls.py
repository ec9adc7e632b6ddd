"""Files behind a URL: the same lines by ranges of the same version, and what a server can do wrong."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator

import pytest

from kcontrol.adapters.files.facts import files_end, files_id, files_reach
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.url_watcher import UrlWatcher
from kcontrol.core.failures import kind_of
from kcontrol.core.model import BadRecords, FailureKind, InputSpec
from kcontrol.core.retry import NEVER_RETRIED
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError, StepFailedError
from kcontrol.wire.files import LINES_ID, FileAddress, UrlVersion, version_in
from tests.support.files_server import FilesServer, serving_files

LINES = [b'{"n": %d, "pad": "%s"}' % (n, b"x" * (n % 90)) for n in range(3_000)]
DATA = b"\n".join(LINES)


@pytest.fixture
def server() -> Iterator[FilesServer]:
    with serving_files() as found:
        yield found


def address(url: str) -> str:
    return FileAddress(url, "", growing=False, header=False, max_line_bytes=10_000).text


def lines_of(topic: str, id_: str, *ranges: tuple[int, int]) -> list[bytes]:
    read = read_lines("orders", topic, id_, [(0, lo, hi) for lo, hi in ranges])
    return [row["value"] for batch in read for row in batch.to_pylist()]


def test_ranges_of_one_version_give_each_line_once_and_fetch_little_else(server: FilesServer) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    id_ = files_id("orders", topic, "")
    assert version_in(id_) == UrlVersion(len(DATA), '"v1"', "Thu, 26 Nov 2026 05:00:00 GMT")
    assert files_end("orders", topic) == len(DATA)
    assert lines_of(topic, id_, (0, len(DATA))) == LINES
    cuts = [0, 10, 5_000, 5_001, 100_000, len(DATA)]
    assert lines_of(topic, id_, *itertools.pairwise(cuts)) == LINES
    server.asked.clear()
    assert lines_of(topic, id_, (5_000, 5_100))
    assert sum(hi - lo for lo, hi in server.asked) <= 3 << 16


def test_another_version_is_told_whatever_of_it_changed(server: FilesServer) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    id_ = files_id("orders", topic, "")
    for data, tag, said in (
        (DATA, '"v2"', 'is another version than "v1"'),
        (DATA + b"\n", '"v1"', f"is another version: it is {len(DATA) + 1} bytes"),
    ):
        server.put("/a", data, tag)
        with pytest.raises(InputGoneError, match=said):
            lines_of(topic, id_, (0, 100))
        item = InputSpec("orders", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")
        assert "is another version" in files_reach(item).topic_id
    del server.files["/a"]
    with pytest.raises(InputGoneError, match=r"input 'orders': .*/a answers 404"):
        lines_of(topic, id_, (0, 100))
    with pytest.raises(ConfigurationError, match=r"input 'orders': .*/a answers 404"):
        files_id("orders", topic, "")
    assert files_id("orders", topic, id_) == id_


def test_bytes_of_another_range_are_not_taken_for_those_that_were_asked_for(server: FilesServer) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    id_ = files_id("orders", topic, "")
    [line] = lines_of(topic, id_, (5_000, 5_100))[:1]
    server.faults["other range"] = 1
    with pytest.raises(StepFailedError, match=r"gave 'bytes \d+-\d+.* and was asked for") as failed:
        lines_of(topic, id_, (5_000, 5_100))
    assert failed.value.kind is FailureKind.LOST
    assert lines_of(topic, id_, (5_000, 5_100))[0] == line


def test_a_weak_tag_is_compared_but_not_asked_for(server: FilesServer) -> None:
    topic = address(server.put("/a", DATA, 'W/"v1"'))
    id_ = files_id("orders", topic, "")
    assert lines_of(topic, id_, (0, len(DATA))) == LINES
    server.put("/a", DATA, 'W/"v2"')
    with pytest.raises(InputGoneError, match='W/"v2"'):
        lines_of(topic, id_, (0, 100))


@pytest.mark.parametrize("tag", ['"v;1"', '"a;tag=b;modified=c"', 'W/"v;1"', "v;1", '"v\xe91"', ""])
def test_a_tag_may_hold_whatever_a_server_may_send(server: FilesServer, tag: str) -> None:
    topic = address(server.put("/a", DATA, tag))
    id_ = files_id("orders", topic, "")
    assert version_in(id_) == UrlVersion(len(DATA), tag, "Thu, 26 Nov 2026 05:00:00 GMT")
    assert lines_of(topic, id_, (0, len(DATA))) == LINES
    server.put("/a", DATA, f"{tag[:-1]}2{tag[-1:]}")
    with pytest.raises(InputGoneError, match="is another version"):
        lines_of(topic, id_, (0, 100))


@pytest.mark.parametrize("fault", ["away", "short"])
def test_what_passes_is_tried_again_by_a_step_that_is(server: FilesServer, fault: str) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    id_ = files_id("orders", topic, "")
    server.faults[fault] = 1
    with pytest.raises(StepFailedError) as failed:
        lines_of(topic, id_, (0, 100))
    assert failed.value.kind is FailureKind.LOST
    assert lines_of(topic, id_, (0, 10)) == LINES[:1]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("whole", "no ranges"),
        ("redirect", "redirects to http://elsewhere/"),
        ("packed", "sends it compressed"),
    ],
)
def test_what_can_not_be_read_in_ranges_is_refused(server: FilesServer, fault: str, said: str) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    server.faults[fault] = 1
    with pytest.raises(ConfigurationError, match=f"input 'orders': .*{said}"):
        files_id("orders", topic, "")


@pytest.mark.parametrize(("code", "words"), [(401, "401 Unauthorized"), (403, "403 Forbidden")])
def test_what_may_not_be_read_halts_and_says_what_to_do(server: FilesServer, code: int, words: str) -> None:
    url = server.put("/a", DATA, '"v1"')
    topic = address(url)
    id_ = files_id("orders", topic, "")
    said = re.escape(f"{url} may not be read: its server answers {words}, and requests carry no login: ")
    said += "have it given to the hosts of nodes and executors without one"
    server.refuses_with = code
    with pytest.raises(ConfigurationError, match=f"^input 'orders': {said}$"):
        files_id("orders", topic, "")
    with pytest.raises(InputGoneError, match=f"^input 'orders': {said}; .*resume the pipeline") as failed:
        lines_of(topic, id_, (0, 100))
    assert kind_of(failed.value) in NEVER_RETRIED

    item = InputSpec("orders", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")
    server.refuses_with = 0

    async def told() -> list[str]:
        found = []
        async for [seen], _ in UrlWatcher(item, {}, look_s=0.01).arrivals():
            found.append(seen.topic_id)
            if len(found) == 2:
                break
            server.refuses_with = code
        return found

    first, second = asyncio.run(told())
    assert first == id_
    assert re.fullmatch(said, second), "which is not the input's id, so a coordinator halts"


def test_nobody_there_is_a_passing_fault_and_an_empty_file_is_none(server: FilesServer) -> None:
    with pytest.raises(RetriableError, match="does not answer"):
        files_id("orders", address("http://127.0.0.1:9/a"), "")
    topic = address(server.put("/a", b"", '"v1"'))
    assert files_end("orders", topic) == 0
    with pytest.raises(InputGoneError, match="does not say which version"):
        read_lines("orders", topic, LINES_ID, [(0, 0, 0)])


def test_a_watcher_tells_all_at_once_and_then_only_of_another_version(server: FilesServer) -> None:
    topic = address(server.put("/a", DATA, '"v1"'))
    id_ = files_id("orders", topic, "")
    item = InputSpec("orders", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")

    async def body() -> list[tuple[str, int]]:
        watcher = UrlWatcher(item, {0: 7}, look_s=0.01)
        found = []
        async for [seen], _ in watcher.arrivals():
            found.append((seen.topic_id, seen.to))
            if len(found) == 1:
                server.faults["away"] = 2
                server.put("/a", DATA, '"v2"')
            elif len(found) == 2:
                server.put("/a", DATA, '"v1"')
            else:
                break
        await watcher.close()
        return found

    first, second, third = asyncio.run(body())
    assert first == third == (id_, len(DATA))
    assert second[0].startswith(f"{server.url}/a is another version")
