"""Writes docs/reference/cli.md from the command line's own parser: `python -m docs.make_cli`.

tests/docs/test_reference.py fails when the page is not current.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from kcontrol.cli.main import EXIT_CODES, cli

PAGE = Path(__file__).parent / "reference" / "cli.md"

INTRODUCTION = """# Command line

Made from the parser by `python -m docs.make_cli`: do not edit. `kcontrol COMMAND --help` says the same.

Every command finds Kafka by `--bootstrap-servers`, else `KCONTROL_BOOTSTRAP_SERVERS`, else `kcontrol.toml`:
[settings](settings.md#kcontroltoml). With `--json` each prints one object a line.
"""

_EXAMPLE = re.compile(r"\n*\x08\n(?P<text>.*?)(?=\n\n|\Z)", re.DOTALL)
_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"^(Examples?|Start with): +")


def render() -> str:
    """The whole page."""
    context = click.Context(cli, info_name="kcontrol")
    sections = [each for name in cli.list_commands(context) for each in _sections(context, name)]
    return "\n".join([INTRODUCTION, *sections, _exit_codes()])


def _sections(parent: click.Context, name: str) -> list[str]:
    """One, or one for each command of a group, after what the group is for."""
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    if not isinstance(command, click.Group):
        return [_command(command, context)]
    inner = [each for below in command.list_commands(context) for each in _sections(context, below)]
    return [f"## {context.command_path}\n\n{_help(command)[0]}\n", *inner]


def _command(command: click.Command, context: click.Context) -> str:
    words, examples = _help(command)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [
        each for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden
    ]
    rows = "".join(_row(each, context) for each in options if "--help" not in each.opts)
    return (
        f"## {context.command_path}\n\n`{context.command_path} {usage}`\n\n{words}\n{examples}\n| option | "
        f"|\n|---|---|\n{rows}"
    )


def _help(command: click.Command) -> tuple[str, str]:
    """What it is for, in paragraphs, and its examples as a block."""
    text = inspect.cleandoc(command.help or "")
    found = [match["text"] for match in _EXAMPLE.finditer(text)]
    words = _EXAMPLE.sub("", text).strip()
    lines = [_LABEL.sub("", line).strip() for block in found for line in block.splitlines()]
    block = "\n".join(line for line in lines if line)
    return words, f"\n<!-- not run: an example of the help -->\n```bash\n{block}\n```\n" if block else ""


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    names, words = (_SPACE.sub(" ", part.strip()).replace("|", "\\|") for part in record)
    names = names.replace("INTEGER RANGE", "N").replace("FLOAT RANGE", "X")
    return f"| `{names}` | {words} |\n"


def _exit_codes() -> str:
    lines = [line.strip() for line in EXIT_CODES.splitlines() if re.match(r"\s+\d", line)]
    rows = "".join(
        f"| {code} | {meaning} |\n" for code, meaning in (line.split(maxsplit=1) for line in lines)
    )
    return f"## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
