"""Every block of code on every page is run, or read by what reads it; a block without a language or a rule
fails."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import ROOT, Block, blocks_in, blocks_of, pages
from tests.docs.expected import missing
from tests.docs.reading import read
from tests.docs.test_story import PAGES as STORY

ADDRESS = "localhost:9092"
BLOCKS = [block for page in pages() for block in blocks_of(page)]
RUN_HERE = [block for block in BLOCKS if block.language == "python" and not block.rule and not block.title]
NOT_RUN = [block for block in BLOCKS if block.rule == "not run"]
WITH_A_BROKER = [block for block in BLOCKS if block.rule == "topic"]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_can_be_read_by_what_reads_it(block: Block, tmp_path: Path) -> None:
    read(block, tmp_path)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "bash"], ids=str)
def test_commands_are_run_or_the_page_says_why_not(block: Block) -> None:
    if block.page in STORY:
        return
    assert block.rule in ("not run", "run by"), (
        "only pages of a story are run: say why it is not run, or which test runs it"
    )


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: f"{block}: {block.argument}")
def test_what_is_not_run_has_a_reason(block: Block) -> None:
    assert len(block.argument.split()) >= 3, "say why"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.rule == "run by"], ids=str)
def test_the_test_that_is_said_to_run_a_block_is_there(block: Block) -> None:
    assert (ROOT / block.argument).is_file(), block.argument


@pytest.mark.parametrize("page", sorted({block.page for block in RUN_HERE}))
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in RUN_HERE:
        if block.page == page:
            exec(compile(block.text, str(block), "exec"), names)


@pytest.mark.parametrize("block", WITH_A_BROKER, ids=str)
def test_python_runs_with_a_broker(
    block: Block, settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    text = block.text
    for topic in block.argument.split(", "):
        text = text.replace(f'"{topic}"', f'"{topic_factory(topic)}"')
    assert ADDRESS in text
    exec(compile(text.replace(ADDRESS, settings.bootstrap_servers), str(block), "exec"), {"__name__": "page"})


def test_every_page_is_looked_at() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/howto/attach.md"} <= set(pages())


WHAT_IS_RAISED = (
    AssertionError,
    ValueError,
    SyntaxError,
    yaml.YAMLError,
    click.UsageError,
    ConfigurationError,
)
WRONG = {
    "```\nx\n```\n": "say its language",
    "text\n\n    x = 1\n": "say its language",
    "```rust\nx\n```\n": "no rule for 'rust'",
    "```bash\nkcontrol start flights\n```\n": "no command kcontrol start",
    "```bash\nkcontrol steps flights --watch\n```\n": "--watch",
    "```bash\nkcontrol steps flights --from zero\n```\n": "zero",
    "```bash\nkcontrol steps a b\n```\n": "takes no b",
    '```bash\necho "$(kcontrol steps)"\n```\n': "PIPELINE",
    "```bash\ntrue && kcontrol status p | cat; kcontrol steps\n```\n": "PIPELINE",
    "```bash\nmake coffee\n```\n": "no target coffee",
    "```bash\npython -m kcontrol.coffee\n```\n": "no module kcontrol.coffee",
    '```toml\n[kafka]\nservers = "b:9092"\n```\n': "no setting 'servers'",
    '```toml\n[kafka]\nbootstrap_servers = "b"\n```\n': "not host:port",
    "```json\n{,}\n```\n": "property name",
    "```yaml\na: [\n```\n": "expected",
    "```python\ndef\n```\n": "invalid syntax",
    "```diff\n-def f():\n+def g(:\n     pass\n```\n": "invalid syntax",
    '```python title="p.py"\nimport kcontrol\n@pipeline.query\ndef f(x): ...\n```\n': "name 'pipeline' is not defined",
    "```text\n$ kcontrol steps flights\n```\n": "looks like a command",
    "```mermaid\ngraph\n```\n": "compared with what they draw",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=WRONG.values())
def test_what_is_wrong_is_found(text: str, said: str, tmp_path: Path) -> None:
    [block] = blocks_in("page.md", text)
    with pytest.raises(WHAT_IS_RAISED) as found:
        read(block, tmp_path)
    assert said in (
        found.value.format_message() if isinstance(found.value, click.UsageError) else str(found.value)
    )


def test_comments_above_a_block_are_its_rule() -> None:
    [first, second, third] = blocks_in(
        "page.md",
        '<!-- not run: for a reason -->\n```bash\na\n```\n```python title="x.py"\nb\n```\n<!-- else '
        "-->\n\n```text\nc\n```\n",
    )
    assert (first.rule, first.argument, first.language) == ("not run", "for a reason", "bash")
    assert (second.rule, second.title, second.language) == ("", "x.py", "python")
    assert (third.rule, third.text, third.line) == ("", "c\n", 10)


def test_what_is_shown_must_be_printed_in_order_whatever_the_numbers() -> None:
    printed = (
        "step 4 of ab\nits data is in /var/lib/x/broker\n  3  2026-11-22T01:12:33.905Z  a 1,000 -> b "
        "12  9 ms\nend"
    )
    assert missing("step 77 of ab\n...\n 31 2025-01-01T00:00:00Z a 5 -> b 6,000 7 ms", printed) is None
    assert missing("its data is in ~/tour/data", printed) is None
    assert missing("step 1 ...\nend", printed) is None
    assert missing("end\nstep 4 of ab", printed) == "step 4 of ab"
    assert missing("step 4 of abc", printed) == "step 4 of abc"
    assert missing("step 4", printed) == "step 4"
