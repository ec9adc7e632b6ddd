"""What is refused before any record is looked at."""

from __future__ import annotations

import struct

import pytest

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches import Fetched, codec_named
from tests.property.batches.made import MadeBatch, MadeRecord, resealed

WHOLE = MadeBatch([MadeRecord(0, 5, b"k", b"v"), MadeRecord(1, 6, b"k", b"v")]).encode(40)


def with_field(form: str, at: int, value: int) -> bytes:
    out = bytearray(WHOLE)
    struct.pack_into(form, out, at, value)
    return resealed(out)


def test_an_old_message_format_says_what_to_do() -> None:
    with pytest.raises(
        DamagedRecordError,
        match=r"in-7: the batch at offset 40 has message format 1.*copy the topic's records",
    ):
        Fetched(with_field(">b", 16, 1), "in-7")


@pytest.mark.parametrize("length", [0, -1, 48, -(2**31)])
def test_a_length_that_holds_no_header(length: int) -> None:
    with pytest.raises(DamagedRecordError, match=f"its length is {length}"):
        Fetched(with_field(">i", 8, length), "in-7")


@pytest.mark.parametrize(
    ("form", "at", "value"),
    [(">q", 0, -1), (">q", 0, 2**63 - 5), (">i", 23, -1), (">i", 57, -1), (">i", 57, 3)],
)
def test_offsets_and_counts_that_can_not_be(form: str, at: int, value: int) -> None:
    with pytest.raises(DamagedRecordError, match=r"it says that it has -?\d+ records in -?\d+ offsets"):
        Fetched(with_field(form, at, value), "in-7")


def test_a_length_beyond_the_bytes_is_a_batch_that_was_cut_off() -> None:
    fetched = Fetched(WHOLE + with_field(">i", 8, 2**31 - 1), "in-7")
    assert [batch.base_offset for batch in fetched.batches] == [40]
    assert fetched.next_offset(0) == 42


def test_a_timestamp_that_no_clock_shows() -> None:
    broken = MadeBatch([MadeRecord(0, 1_700_000_000_000_000_000, b"k", b"v")]).encode(40)
    for name in ("compiled", "reference"):
        with pytest.raises(
            DamagedRecordError, match=r"record at offset 40 has timestamp 1700000000000000000 ms"
        ):
            list(Fetched(broken, "in-7").decode(codec_named(name), (), 0, 100))


def test_unusual_but_sound_bytes_are_read_like_kafkas_own_client_reads_them() -> None:
    """A number encoded longer than it needs to be, and a header's name that is not UTF-8."""
    fields = b"\x00\x00\x00" + b"\x82\x00k" + b"\x02v" + b"\x02" + b"\x04\xc3\x28" + b"\x01"
    records = bytes([2 * len(fields)]) + fields
    header = bytearray(MadeBatch([MadeRecord(0, 0)]).encode(0)[:61])
    struct.pack_into(">i", header, 8, 49 + len(records))
    data = resealed(bytes(header) + records)
    for name in ("compiled", "reference"):
        (run,) = Fetched(data, "in-7").decode(codec_named(name), (), 0, 100, headers=True)
        (row,) = run.rows.select(["key", "value", "headers"]).to_pylist()
        assert row == {"key": b"k", "value": b"v", "headers": [{"key": "\ufffd(", "value": None}]}
