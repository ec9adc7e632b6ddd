"""What a read_committed reader sees of transactions: committed ones only, whatever lies between their
batches."""

from __future__ import annotations

import pytest

from kcontrol.wire.batches import Codec, Fetched, codec_named
from tests.property.batches.made import MadeBatch, MadeLog, MadeRecord, marker

CODECS = [codec_named("compiled"), codec_named("reference")]


def batch(name: str, producer_id: int = -1) -> MadeBatch:
    transactional = producer_id >= 0
    return MadeBatch(
        [MadeRecord(0, 0, None, name.encode())],
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=0,
    )


def values(
    codec: Codec, log: MadeLog, aborted: list[tuple[int, int]], first: int = 0, to: int = 2**62
) -> list[str]:
    decoded = Fetched(log.encode(), "t-0").decode(codec, aborted, first, to)
    return [value.decode() for run in decoded for value in run.rows.column("value").to_pylist()]


@pytest.fixture(params=CODECS, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    found: Codec = request.param
    return found


def test_markers_are_never_rows(codec: Codec) -> None:
    log = MadeLog([batch("a", 1), marker(1, commit=True), batch("plain"), marker(2, commit=False)])
    assert values(codec, log, []) == ["a", "plain"]


def test_an_aborted_producer_is_hidden_until_its_marker(codec: Codec) -> None:
    log = MadeLog(
        [
            batch("1", 1),
            batch("2", 2),
            batch("plain"),
            batch("1 too", 1),
            marker(1, commit=False),
            batch("1 again", 1),
        ]
    )
    assert values(codec, log, [(1, 0)]) == ["2", "plain", "1 again"]


def test_a_transaction_is_hidden_only_from_its_first_aborted_offset(codec: Codec) -> None:
    log = MadeLog(
        [batch("kept", 1), marker(1, commit=True), batch("gone", 1), marker(1, commit=False)], start=50
    )
    assert values(codec, log, [(1, 52)]) == ["kept"]


def test_two_aborted_transactions_of_one_producer(codec: Codec) -> None:
    log = MadeLog([
        batch("x", 1), marker(1, commit=False), batch("ok", 1), marker(1, commit=True), batch("y", 1), marker(1, commit=False),
    ])  # fmt: skip
    assert values(codec, log, [(1, 4), (1, 0)]) == ["ok"]


def test_a_range_that_begins_inside_an_aborted_transaction(codec: Codec) -> None:
    log = MadeLog([batch("x", 1), batch("y", 1), marker(1, commit=False), batch("ok", 1)])
    assert values(codec, log, [(1, 0)], first=1) == ["ok"]
    assert values(codec, log, [(1, 0)], first=1, to=3) == []


def test_a_control_batch_that_compaction_has_emptied(codec: Codec) -> None:
    empty = MadeBatch([], transactional=True, producer_id=1, producer_epoch=0, control=True)
    assert values(codec, MadeLog([empty, batch("a", 2)]), []) == ["a"]


def test_a_batch_that_compaction_has_emptied(codec: Codec) -> None:
    assert values(codec, MadeLog([MadeBatch([], skipped=4), batch("a")]), []) == ["a"]
