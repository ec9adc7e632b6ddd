"""Every block of code in the repository's Markdown pages, with what the page says of how it is tested.

What is done with a block follows from its language and from a comment right above it, which readers don't
see:

- `<!-- not run: REASON -->`: it is read as far as it can be without running it, and REASON says why it is not
- `<!-- run by: FILE -->`: that test runs it
- `<!-- topic: NAME, ... -->` (python): it needs a broker with these topics
- `<!-- terminal: NAME -->` (bash, in a story): it goes on running, as in a terminal of its own
- `<!-- prints -->` (text, in a story): the commands above have printed this
- `<!-- prints: NAME -->` (text, in a story): that terminal prints this next
- `<!-- ends: NAME -->` (text, in a story): Ctrl-C in that terminal, whose command ends

`title="NAME"` after the language makes the block a file of that name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
_FOLDERS = ("docs", "docker", "examples", "bench", "schemas")

_MARKER = re.compile(r"<!--\s*([a-z ]+?)\s*(?::\s*(.*?))?\s*-->\s*", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_RULES = frozenset({"not run", "run by", "topic", "terminal", "prints", "ends"})


@dataclass(frozen=True)
class Block:
    """One block. page: relative to the repository. rule, argument: of the comment above it; '' without
    one."""

    page: str
    line: int
    language: str
    title: str
    rule: str
    argument: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every Markdown file, relative to the repository."""
    found = [*ROOT.glob("*.md"), *(page for folder in _FOLDERS for page in (ROOT / folder).rglob("*.md"))]
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """The blocks of a page, in order."""
    return tuple(blocks_in(page, (ROOT / page).read_text(encoding="utf-8")))


def blocks_in(page: str, text: str) -> list[Block]:
    """The blocks of a text. Raises AssertionError for a comment that is no rule, but looks like one."""
    found: list[Block] = []
    rule, argument = "", ""
    for token in MarkdownIt("commonmark").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            match = _MARKER.fullmatch(token.content)
            rule, argument = (match[1], match[2] or "") if match and match[1] in _RULES else ("", "")
            continue
        if token.type in ("fence", "code_block"):
            info = token.info.strip()
            title = _TITLE.search(info)
            language = "" if title and info.startswith("title=") else info.partition(" ")[0]
            found.append(
                Block(page, line, language, title[1] if title else "", rule, argument, token.content)
            )
        rule, argument = "", ""
    return found
