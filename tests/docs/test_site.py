"""docs/ builds to a site without a warning, and reading it fetches nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import ROOT, pages

TIMEOUT_S = 240
_FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
_IMPORTED = re.compile(r"@import|url\([\"']?(?:https?:)?//")


def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    made = {page.relative_to(tmp_path).with_suffix("").as_posix(): page for page in tmp_path.rglob("*.html")}
    written = {page.removeprefix("docs/").removesuffix(".md") for page in pages() if page.startswith("docs/")}
    assert written <= set(made)
    found = {name: _FETCHED.findall(page.read_text(encoding="utf-8")) for name, page in made.items()}
    assert not any(found.values()), {name: urls for name, urls in found.items() if urls}
    styles = [
        style for style in tmp_path.rglob("*.css") if _IMPORTED.search(style.read_text(encoding="utf-8"))
    ]
    assert not styles, styles


def test_what_would_be_fetched_is_found() -> None:
    assert _FETCHED.findall(
        '<script src="https://cdn.example/x.js"></script><link rel=x href="//fonts.example/y">'
    )
    assert not _FETCHED.findall('<a href="https://example.org">x</a><img src="images/a.png">')
    assert _IMPORTED.search("a { background: url(https://example.org/x.png) }")
