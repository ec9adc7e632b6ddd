"""What a reset finds out of inputs that are files, from the host on which it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.adapters.files.facts import files_id
from kcontrol.adapters.files.lines import read_lines
from kcontrol.apps.reset_files import unseen_files
from kcontrol.core.model import BadRecords, InputSlice, InputSpec, StepBoundary
from kcontrol.errors import InputGoneError, RetriableError
from kcontrol.wire.files import FileAddress
from tests.support.files_server import serving_files
from tests.unit.core.made import SPEC, boundary

LINES = b"one\ntwo\nthree\n"
ENDS = (4, 8, 14)


def address_of(path: str, pattern: str = "") -> str:
    return FileAddress(path, pattern, growing=False, header=False, max_line_bytes=5_000).text


def steps_of(topic: str, id_: str) -> list[StepBoundary]:
    """One for each line."""
    made = []
    for step, (begin, end) in enumerate(zip((0, *ENDS), ENDS, strict=False), 1):
        read = read_lines("lines", topic, id_, [(0, begin, end)])
        assert sum(batch.num_rows for batch in read) == 1
        piece = InputSlice("lines", topic, id_, 0, begin, end, 1, read.digest.hex)
        made.append(replace(boundary(step), inputs=(piece,)))
    return made


def look(topic: str, id_: str, counting: Sequence[StepBoundary]) -> tuple[str, ...]:
    item = InputSpec("lines", topic, id_, (0,), (0,), "raw", BadRecords.HALT, "", "")
    return unseen_files(replace(SPEC, inputs=(*SPEC.inputs, item)), counting, counting[-1])


def test_what_counts_of_files_on_this_host_must_be_as_it_was_and_what_is_behind_may_be_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_bytes(LINES)
    topic = address_of(str(tmp_path), "*.txt")
    id_ = files_id("lines", topic, "")
    steps = steps_of(topic, id_)
    assert look(topic, id_, steps) == ()
    (tmp_path / "a.txt").write_bytes(LINES[: ENDS[1]])
    assert look(topic, id_, steps[:2]) == ()
    with pytest.raises(
        InputGoneError, match=r"input 'lines': .* has 8 bytes, and 14 were read.*Nothing was reset"
    ):
        look(topic, id_, steps)
    (tmp_path / "a.txt").write_bytes(LINES.replace(b"two", b"TWO"))
    assert look(topic, id_, steps[:1]) == ()
    with pytest.raises(InputGoneError, match=r"bytes 4 to 8 of .* are not those that were read"):
        look(topic, id_, steps[:2])


def test_files_of_another_host_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(LINES)
    topic = address_of(str(path))
    id_ = files_id("lines", topic, "")
    steps = steps_of(topic, id_)
    path.unlink()
    assert look(topic, id_, steps) == (f"input 'lines': {path} is not on this host",)


def test_a_url_must_give_the_version_that_was_read() -> None:
    with serving_files() as server:
        topic = address_of(server.put("/a.txt", LINES, '"one"'))
        id_ = files_id("lines", topic, "")
        steps = steps_of(topic, id_)
        assert look(topic, id_, steps) == ()
        server.faults["away"] = 1
        with pytest.raises(RetriableError, match="answers 503"):
            look(topic, id_, steps)
        server.refuses_with = 403
        [said] = look(topic, id_, steps)
        assert "input 'lines': " in said
        assert "may not be read" in said
        server.refuses_with = 0
        server.put("/a.txt", LINES, '"two"')
        with pytest.raises(InputGoneError, match=r"is another version.*Nothing was reset"):
            look(topic, id_, steps)
        del server.files["/a.txt"]
        with pytest.raises(InputGoneError, match="answers 404"):
            look(topic, id_, steps)
