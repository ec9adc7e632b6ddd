"""The tutorial, and the pages that go on where it ends, done by a reader who does
everything that they say, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.story import Story
from tests.support.ports import free_ports

PAGES = (
    "docs/tutorial.md",
    "docs/howto/consume.md",
    "docs/howto/replay.md",
    "docs/howto/query.md",
    "docs/howto/upgrade.md",
    "docs/howto/attach.md",
)
PORTS = ("9092", "8480")


@pytest.mark.heavy  # six minutes, most of them spent waiting as a reader would: `pytest -m heavy tests/docs`
@pytest.mark.timeout(900)
def test_the_pages_come_true(tmp_path: Path) -> None:
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    scratch = tmp_path / "read"
    scratch.mkdir()
    with Story(tmp_path, ports) as story:
        for page in PAGES:
            story.tell(blocks_of(page), scratch)
