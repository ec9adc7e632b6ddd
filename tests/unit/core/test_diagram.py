"""The pictures in docs/diagrams are those of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.make_diagrams import document

_DIAGRAMS = Path(__file__).parents[3] / "docs" / "diagrams"


@pytest.mark.parametrize("which", ["coordinator", "node", "region"])
def test_the_picture_is_current(which: str) -> None:
    path = _DIAGRAMS / f"{which}.md"
    assert path.read_text() == document(which), (
        f"run: python -m docs.make_diagrams {which} > docs/diagrams/{which}.md"
    )
