"""docs/schemas.md says what the schemas say."""

from __future__ import annotations

from docs.make_schemas import PAGE, render


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m docs.make_schemas"
