"""Whoever wants some records of a control partition alone is not held up by the others."""

from __future__ import annotations

from kcontrol.adapters.kafka.logs.control_decoder import ControlDecoder
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.core.log.keys import is_spec_key, key_of, spec_key
from kcontrol.core.model import Desired, DesiredMode, Tombstone
from kcontrol.wire.codec import RecordCodec
from kcontrol.wire.names import control_partition
from tests.unit.core.made import SPEC

PARTITIONS = 8


def test_only_what_is_wanted_is_decoded_and_a_definition_that_was_deleted_is_told() -> None:
    codec, partition = RecordCodec(), control_partition("p", PARTITIONS)
    desired = Desired("p", DesiredMode.STOPPED, "r")
    values = [
        (key_of(SPEC), codec.encode(SPEC)),
        (key_of(desired), codec.encode(desired)),
        ("p/status", b"damaged"),
        (spec_key("p"), None),
    ]
    records = [RawRecord(at, 0, key.encode(), value, ()) for at, (key, value) in enumerate(values)]
    every = ControlDecoder("t", partition, PARTITIONS)
    assert [each.record for each in every.decode_all(records)] == [SPEC, desired, Tombstone(spec_key("p"))]
    assert every.rejected.total() == 1
    some = ControlDecoder("t", partition, PARTITIONS, wanted=is_spec_key)
    assert [each.record for each in some.decode_all(records)] == [SPEC, Tombstone(spec_key("p"))]
    assert some.rejected.total() == 0


def test_of_each_key_the_newest_is_what_compaction_would_leave() -> None:
    codec, partition = RecordCodec(), control_partition("p", PARTITIONS)
    running, stopped = (Desired("p", mode, "r") for mode in (DesiredMode.RUNNING, DesiredMode.STOPPED))
    values = [
        (key_of(running), codec.encode(running)),
        (key_of(SPEC), codec.encode(SPEC)),
        (spec_key("q"), b"damaged"),
        (key_of(stopped), codec.encode(stopped)),
        (spec_key("q"), None),
    ]
    records = [RawRecord(at, 0, key.encode(), value, ()) for at, (key, value) in enumerate(values)]
    newest = ControlDecoder("t", partition, PARTITIONS, "p", newest_only=True)
    found = newest.decode_all(records)
    assert [(each.offset, each.record) for each in found] == [(1, SPEC), (3, stopped)]
    assert [each.record for each in newest.decode_all(records[:1])] == [running], "what comes later is newer"
