"""Every record survives the wire, and no damage to its bytes gives anything but the record or one clear
error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.model import ControlRecord, StepBoundary
from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import RecordCodec
from tests.strategies import RECORDS

CODEC = RecordCodec()


@given(RECORDS)
def test_what_was_encoded_is_decoded(record: ControlRecord | StepBoundary) -> None:
    assert CODEC.decode(CODEC.encode(record)) == record


@given(RECORDS, st.data())
def test_cut_bytes_are_refused(record: ControlRecord | StepBoundary, data: st.DataObject) -> None:
    whole = CODEC.encode(record)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(DamagedRecordError, match="offset 7"):
        CODEC.decode(cut, "topic t, partition 0, offset 7")


@given(RECORDS, st.data())
def test_changed_bytes_give_a_record_or_a_damaged_record_error(
    record: ControlRecord | StepBoundary, data: st.DataObject
) -> None:
    whole = bytearray(CODEC.encode(record))
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    try:
        CODEC.decode(bytes(whole))
    except DamagedRecordError:
        pass


@given(RECORDS, st.binary(min_size=1, max_size=8))
def test_bytes_after_the_record_are_refused(record: ControlRecord | StepBoundary, more: bytes) -> None:
    with pytest.raises(DamagedRecordError, match=f"{len(more)} bytes follow"):
        CODEC.decode(CODEC.encode(record) + more)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedRecordError):
        CODEC.decode(data)


@given(st.binary(max_size=60) | st.text().map(str.encode))
def test_a_foreign_schema_is_refused(value: bytes) -> None:
    with pytest.raises(DamagedRecordError):
        RecordCodec().learn("schema/0000000000000000", value)
