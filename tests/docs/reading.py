"""Reads a block without running it: the rules by language, of which every block of every page must fit one.

Each raises AssertionError, with what is wrong, or whatever the reader of that language raises.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import yaml

from kcontrol.cli.main import cli
from kcontrol.definition.loader import load_pipeline
from kcontrol.definition.region_file import region_settings
from kcontrol.settings.toml import FILE_NAME, resolve_settings
from tests.docs.blocks import ROOT, Block

_SEPARATORS = frozenset({"|", "||", "&&", ";", "&"})
_COMMAND_LINE = re.compile(r"^\$ |^(?:kcontrol|make|curl|pip|python) [a-z-]", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SUBSTITUTION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_DRAWN = "docs/diagrams/"
"""Made from the code, and compared with it by tests/unit/core/test_diagram.py."""


def read(block: Block, directory: Path) -> None:
    """Read it by the rule of its language. directory: an empty one for files."""
    assert block.language, (
        "say its language after the ```: bash, python, toml, json, yaml, or text for what no program reads"
    )
    reader = _READERS.get(block.language)
    assert reader is not None, (
        f"there is no rule for {block.language!r}: take one of {', '.join(sorted(_READERS))}, or add one"
    )
    reader(block, directory)


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell script, with those in $(...), each as its words."""
    for inner in _SUBSTITUTION.findall(text):
        yield from commands(inner)
    pending = ""
    for line in _SUBSTITUTION.sub("1", text.replace("\\\n", " ")).splitlines():
        pending += line + "\n"
        try:
            lexer = shlex.shlex(pending, posix=True, punctuation_chars="|&;")
            lexer.whitespace_split = True
            words = [*lexer, ";"]
        except ValueError:
            continue  # a quotation that goes on in the next line
        pending = ""
        while words:
            end = next(place for place, word in enumerate(words) if word in _SEPARATORS)
            if words[:end]:
                yield words[:end]
            words = words[end + 1 :]
    assert not pending, f"a quotation is not closed: {pending!r}"


def parse_kcontrol(arguments: list[str]) -> None:
    """Parse as the real command line would, without its callbacks. Raises click.UsageError."""
    name = arguments[0] if arguments else ""
    if name in ("--help", "--version"):
        return
    _parse(cli, click.Context(cli, info_name="kcontrol"), arguments)


def _parse(group: click.Group, parent: click.Context, arguments: list[str]) -> None:
    name = arguments[0] if arguments else ""
    command = group.get_command(parent, name)
    assert command is not None, f"there is no command {parent.command_path} {name}"
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        _parse(command, context, arguments[1:])
        return
    given, left, _ = command.make_parser(context).parse_args(arguments[1:])
    assert not left, f"{context.command_path} takes no {' '.join(left)}"
    for parameter in command.get_params(context):
        value, _ = parameter.consume_value(context, given)
        if not parameter.value_is_missing(value):
            parameter.type_cast_value(context, value)
        elif parameter.required:
            raise click.MissingParameter(ctx=context, param=parameter)


def _bash(block: Block, _directory: Path) -> None:
    for words in commands(block.text):
        match words:
            case ["kcontrol", *arguments]:
                parse_kcontrol(_without_redirection(arguments))
            case ["make", *arguments]:
                for target in (each for each in arguments if "=" not in each):
                    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                        f"no target {target}"
                    )
            case ["python", "-m", module, *_]:
                assert importlib.util.find_spec(module) is not None, f"there is no module {module}"


def _without_redirection(words: list[str]) -> list[str]:
    end = next((place for place, word in enumerate(words) if word in (">", ">>", "<")), len(words))
    return words[:end]


def _python(block: Block, directory: Path) -> None:
    compile(block.text, str(block), "exec")
    if block.title and "@pipeline.query" in block.text and not block.rule:
        file = directory / block.title
        file.write_text(block.text, encoding="utf-8")
        load_pipeline(file)


def _java(block: Block, _directory: Path) -> None:
    assert block.rule == "run by", "say which test compiles and runs it"


def _toml(block: Block, directory: Path) -> None:
    if "region = " in block.text:
        (directory / "region.toml").write_text(block.text, encoding="utf-8")
        region_settings(directory / "region.toml")
        return
    assert "[kafka]" in block.text, (
        f"the only TOML that kcontrol reads is {FILE_NAME}, and what defines a region"
    )
    (directory / FILE_NAME).write_text(block.text, encoding="utf-8")
    resolve_settings(None, dict.fromkeys(_VARIABLE.findall(block.text), "x"), directory)


def _json(block: Block, _directory: Path) -> None:
    json.loads(block.text)


def _yaml(block: Block, _directory: Path) -> None:
    assert list(yaml.safe_load_all(block.text)) != [None]


def _text(block: Block, _directory: Path) -> None:
    found = None if block.rule == "prints" else _COMMAND_LINE.search(block.text)
    assert found is None, f"{found and found[0]!r} looks like a command: give it a block of bash"


def _diff(block: Block, _directory: Path) -> None:
    """Both sides of a change to Python code."""
    for sign in "-+":
        lines = [line[1:] for line in block.text.splitlines() if line[:1] in (" ", sign) or not line]
        compile("\n".join(lines), f"{block}, {sign}", "exec")


def _mermaid(block: Block, _directory: Path) -> None:
    assert block.page.startswith(_DRAWN), f"only pages under {_DRAWN} are compared with what they draw"


_READERS: dict[str, Callable[[Block, Path], None]] = {
    "bash": _bash,
    "diff": _diff,
    "java": _java,
    "json": _json,
    "mermaid": _mermaid,
    "python": _python,
    "text": _text,
    "toml": _toml,
    "yaml": _yaml,
}
