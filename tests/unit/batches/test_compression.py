"""Packing depends on nothing but the bytes."""

from __future__ import annotations

import time

import pytest

from kcontrol.wire.batches.compression import Compression, pack, unpack


@pytest.mark.parametrize("compression", list(Compression))
def test_the_clock_does_not_change_what_is_packed(
    compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = b"the same records" * 10
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    first = pack(compression, records)
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    assert pack(compression, records) == first
    assert unpack(compression, first) == records
