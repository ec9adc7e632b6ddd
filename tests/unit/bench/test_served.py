"""A file that the bench of NDJSON gives over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.files.served import serving
from kcontrol.adapters.files.urls import opened_url, version_of
from kcontrol.errors import InputGoneError


def test_it_is_read_by_ranges_as_an_input_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_bytes(bytes(range(256)) * 1_000)
    with serving(file) as url:
        version = version_of(url)
        assert version.size_bytes == 256_000
        with opened_url(url, version) as opened:
            assert opened.read(255, 3) == b"\xff\x00\x01"
            assert opened.read(0, 256_001) == file.read_bytes()
        with pytest.raises(InputGoneError):
            version_of(f"{url}.not")
