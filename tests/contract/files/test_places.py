"""The lines of files that are whole, cut anywhere; what becomes of them when a file changes; and going on in the middle."""

from __future__ import annotations

import itertools
import random

import pytest

from kcontrol.adapters.files.facts import files_end, files_id, files_reach
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.s3_client import forget_client
from kcontrol.adapters.files.watcher import FileLooks
from kcontrol.core.model import BadRecords, InputSlice, InputSpec
from kcontrol.errors import ConfigurationError, InputGoneError
from kcontrol.wire.files import LINES_ID, files_of
from tests.contract.files.conftest import InBucket, Place, address_of
from tests.support.dice import say_seed, seed_of_run

NAMES = ("10.txt", "2.txt", "3.txt")


def lines_of(topic: str, id_: str, *ranges: tuple[int, int]) -> list[bytes]:
    read = read_lines("orders", topic, id_, [(0, lo, hi) for lo, hi in ranges])
    return [row["value"] for batch in read for row in batch.to_pylist()]


def slice_of(topic: str, id_: str, lo: int, hi: int) -> InputSlice:
    read = read_lines("orders", topic, id_, [(0, lo, hi)])
    for _ in read:
        pass
    return InputSlice("orders", topic, id_, 0, lo, hi, read.records, read.digest.hex)


def some_lines(dice: random.Random, count: int) -> list[bytes]:
    return [b"%d %s" % (number, b"x" * dice.randint(0, 400)) for number in range(count)]


def cuts_of(dice: random.Random, end: int) -> list[tuple[int, int]]:
    cuts = sorted({0, end, *(dice.randint(0, end) for _ in range(6))})
    return list(itertools.pairwise(cuts))


def test_a_file_cut_anywhere_gives_each_line_once(place: Place) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    lines = some_lines(dice, 700)
    data = b"\n".join(lines)
    place.put("a-b.txt", data)
    topic = address_of(place, "a-b.txt")
    id_ = files_id("orders", topic, "")
    assert files_end("orders", topic) == len(data)
    assert lines_of(topic, id_, *cuts_of(dice, len(data))) == lines
    first, again = (slice_of(topic, id_, 0, len(data)) for _ in range(2))
    assert (first.records, first.digest) == (again.records, again.digest)
    assert first.records == sum(slice_of(topic, id_, *cut).records for cut in cuts_of(dice, len(data)))


def test_a_file_that_is_another_or_gone_is_told_and_read_on_when_it_is_back(place: Place) -> None:
    place.put("a.txt", b"one\ntwo\nthree\n")
    topic = address_of(place, "a.txt")
    id_ = files_id("orders", topic, "")
    assert lines_of(topic, id_, (0, 5)) == [b"one", b"two"]
    item = InputSpec("orders", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")
    place.remove("a.txt")
    with pytest.raises(InputGoneError, match=r"input 'orders': .*a\.txt"):
        lines_of(topic, id_, (8, 14))
    place.put("a.txt", b"one\n")
    if "://" in place.root:
        assert "a.txt is another" in files_reach(item).topic_id
    with pytest.raises(InputGoneError, match=r"input 'orders': .*a\.txt"):
        lines_of(topic, id_, (8, 14))
    place.put("a.txt", b"one\ntwo\nthree\n")
    assert files_reach(item).topic_id == id_
    assert lines_of(topic, id_, (8, 14)) == [b"three"]


def test_files_that_are_found_are_one_log_in_the_order_of_their_names(directory: Place) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    every = some_lines(dice, 300)
    for index, name in reversed(list(enumerate(NAMES))):
        directory.put(name, b"\n".join(every[index * 100 : index * 100 + 100]))
    for other in ("_4.txt", "5.csv"):
        directory.put(other, b"no line of it\n")
    topic = address_of(directory, pattern="*.txt")
    end = files_end("orders", topic)
    assert files_id("orders", topic, "") == LINES_ID
    assert lines_of(topic, LINES_ID, *cuts_of(dice, end)) == every
    looks = FileLooks("orders", files_of(topic), 0, None)
    assert looks.look() == (LINES_ID, end)
    directory.put("4.txt", b"more")
    assert looks.look() == (LINES_ID, end + 4)
    assert lines_of(topic, LINES_ID, (end, end + 4)) == [b"more"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("2.txt", b"One\ntwo\nsix\n"), "2.txt"),
        (("3.txt", b"three\n"), "3.txt"),
        (("1.txt", b"new\n"), "1.txt has come before"),
        (("2.txt", None), "2.txt is not there any more"),
    ],
)
def test_what_changes_below_a_watcher_is_told_until_it_is_as_it_was(
    directory: Place, change: tuple[str, bytes | None], said: str
) -> None:
    there = {name: f"one\ntwo\n{name[0]}\n".encode() for name in NAMES}
    for name, data in there.items():
        directory.put(name, data)
    topic = address_of(directory, pattern="*.txt")
    looks = FileLooks("orders", files_of(topic), 0, None)
    assert looks.look() == (LINES_ID, 30)
    name, data = change
    if data is None:
        directory.remove(name)
    else:
        directory.put(name, data)
    wrong, end = looks.look()
    assert said in wrong
    assert end == 30
    if name in there:
        directory.put(name, there[name])
    else:
        directory.remove(name)
    assert looks.look() == (LINES_ID, 30)


def test_a_process_that_was_not_there_goes_on_in_the_middle_if_its_newest_step_reads_the_same(
    directory: Place,
) -> None:
    for name in NAMES:
        directory.put(name, f"one\ntwo\n{name}\n".encode())
    topic = address_of(directory, pattern="*.txt")
    last = slice_of(topic, LINES_ID, 5, 20)
    end = files_end("orders", topic)
    assert FileLooks("orders", files_of(topic), 20, last).look() == (LINES_ID, end)
    directory.put("2.txt", b"one\nTWO\n2.txt\n")
    wrong, begin = FileLooks("orders", files_of(topic), 20, last).look()
    assert "are not those that were read" in wrong
    assert begin == 20
    directory.remove("2.txt")
    directory.remove("3.txt")
    wrong, _ = FileLooks("orders", files_of(topic), 20, last).look()
    assert f"{directory.root} has 15 bytes, and 20 were read" in wrong


def test_a_real_store_refuses_what_is_not_there_and_who_is_not_known(
    bucket: InBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("empty.txt", b"")
    assert files_end("orders", address_of(bucket, "empty.txt")) == 0
    assert files_end("orders", address_of(bucket, pattern="*.csv")) == 0
    with pytest.raises(ConfigurationError, match=r"none\.txt is not there"):
        files_end("orders", address_of(bucket, "none.txt"))
    elsewhere = InBucket("none-of-that-name", "in")
    for topic in (address_of(elsewhere, "a.txt"), address_of(elsewhere, pattern="*")):
        with pytest.raises(ConfigurationError, match="there is no such bucket"):
            files_end("orders", topic)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-one")
    forget_client()
    with pytest.raises(
        ConfigurationError, match="may not be read with these credentials: S3 answers 403"
    ) as refused:
        files_end("orders", address_of(bucket, "empty.txt"))
    assert "not-the-one" not in str(refused.value)
