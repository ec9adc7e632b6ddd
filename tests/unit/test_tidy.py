"""The house rules that a machine can check, over the whole repository; all offenders are listed at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import pytest

from tests.support.patience import HANG_S

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 440
MAX_CORE_FILE_LINES = 500
"""Where a cut would part what belongs together: a rule of the protocol from what it stands beside."""
MAX_FUNCTION_LINES = 60

# Put together here so that this file does not hold them itself.
MACHINE_PATHS = ["/" + folder for folder in ("work/", "tmp/w", "root/", "home/")]
REGISTRIES = [
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("repo", "maven"))
]
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")

DECISIONS = "docs/decisions/"
CITED = re.compile(r"\bdecision (\d{3})\b")
SECTION = re.compile(r"\(?\bdesign,? \d+\b")

PARTITION_CLIENT = "kcontrol/adapters/kafka/client/partitions.py"
PARTITION_REQUESTS = frozenset({"OffsetRequest", "FetchByIdRequest", "ProduceRecordsRequest"})

# Run by name: as a command, with `python -m`, or by pytest.
ENTRY_POINTS = frozenset({"kcontrol", "kcontrol.cli.main"})


class Module:
    """One Python file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def imports(self) -> set[str]:
        """Dotted names of what is imported, names taken out of modules included."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        return found

    @cached_property
    def strings(self) -> set[str]:
        return {
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }


class Files(dict[str, str]):
    """Their texts by path."""

    @cached_property
    def modules(self) -> list[Module]:
        """Once for all rules: to parse them takes longer than any rule does."""
        return [Module(path, text) for path, text in self.items() if path.endswith(".py")]


Rule = Callable[[Files], Iterator[str]]


def short_files(files: Files) -> Iterator[str]:
    for module in files.modules:
        lines = len(module.text.splitlines())
        most = MAX_CORE_FILE_LINES if module.path.startswith("kcontrol/core/") else MAX_FILE_LINES
        if lines > most:
            yield f"{module.path}: {lines} lines, more than {most}: split it by what it is about"


def short_functions(files: Files) -> Iterator[str]:
    for module in files.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    yield (
                        f"{module.path}:{node.lineno}: {node.name} has {lines} lines, more than "
                        f"{MAX_FUNCTION_LINES}"
                    )


def docstrings(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.tree.body and not ast.get_docstring(module.tree):
            yield f"{module.path}:1: no docstring: say what the module is for"


def class_names_are_unique(files: Files) -> Iterator[str]:
    """Within kcontrol. A name within the package may not be that of another thing: see docs/glossary.md."""
    found: dict[str, list[str]] = {}
    for module in files.modules:
        if module.path.startswith("kcontrol/"):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(module.path)
    for name, paths in found.items():
        if len(paths) > 1:
            yield f"{paths[1]}: class {name} is in {paths[0]}, too: name one of them for what it is"


def no_orphans(files: Files) -> Iterator[str]:
    users = Counter(
        name
        for module in files.modules
        if not module.path.startswith("tests/")
        for name in (module.imports | module.strings) - {module.name}
    )
    for module in files.modules:
        if (
            not module.name.startswith("kcontrol")
            or module.name in ENTRY_POINTS
            or module.path.endswith("__main__.py")
        ):
            continue
        if module.path.endswith("__init__.py") and not module.tree.body[1:]:
            continue
        if not users[module.name]:
            yield f"{module.path}: nobody imports it, apart from tests"


def nothing_of_this_machine(files: Files) -> Iterator[str]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            for word in (*MACHINE_PATHS, *REGISTRIES):
                if word in line:
                    yield f"{path}:{number}: names {word!r}"


def no_prints(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/") and not module.path.startswith("kcontrol/cli/"):
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                    yield f"{module.path}:{node.lineno}: prints; only the command line does"


def pure_core(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/core/"):
            for name in sorted(module.imports):
                if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(
                    ("kcontrol.core", "kcontrol.errors")
                ):
                    yield f"{module.path}: imports {name}; the core uses the standard library only"


def one_partition_client(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/") and module.path != PARTITION_CLIENT:
            for node in ast.walk(module.tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in PARTITION_REQUESTS
                ):
                    yield f"{module.path}:{node.lineno}: makes a {node.func.id}; only {PARTITION_CLIENT} does"


def nothing_unfinished(files: Files) -> Iterator[str]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if UNFINISHED.search(line):
                yield f"{path}:{number}: leaves something undone"


def cited_pages_exist(files: Files) -> Iterator[str]:
    """Decisions are cited by number, such as `decision 005`; nothing else is, as
    sections of a document change theirs."""
    there = {path.removeprefix(DECISIONS)[:3] for path in files if path.startswith(DECISIONS)}
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            for cited in CITED.findall(line):
                if cited not in there:
                    yield f"{path}:{number}: cites decision {cited}, which is not in {DECISIONS}"
            if SECTION.search(line):
                yield (
                    f"{path}:{number}: cites a section of the design by its number; write the decision "
                    "down and cite that"
                )


RULES: list[Rule] = [
    *(short_files, short_functions, docstrings, no_orphans, class_names_are_unique),
    *(
        nothing_of_this_machine,
        no_prints,
        pure_core,
        one_partition_client,
        nothing_unfinished,
        cited_pages_exist,
    ),
]


def repository() -> Files:
    """Every file that is tracked or would be, as text; binary ones are left out."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(
        listed, cwd=ROOT, check=True, capture_output=True, text=True, timeout=HANG_S
    ).stdout.split("\0")
    files = Files()
    for name in filter(None, names):
        try:
            files[name] = (ROOT / name).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError, IsADirectoryError):
            continue
    return files


def test_the_repository_keeps_the_house_rules() -> None:
    files = repository()
    assert "kcontrol/core/events/shared.py" in files
    offenders = [f"{offender}  [{rule.__name__}]" for rule in RULES for offender in rule(files)]
    assert not offenders, f"{len(offenders)} offenders:\n" + "\n".join(offenders)


LONG_FUNCTION = '"""."""\ndef f():\n' + "    x = 1\n" * MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (short_files, "tests/a.py", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (short_files, "kcontrol/core/a.py", "x = 1\n" * (MAX_CORE_FILE_LINES + 1)),
        (short_functions, "bench/a.py", LONG_FUNCTION),
        (docstrings, "examples/a.py", "x = 1\n"),
        (no_orphans, "kcontrol/wire/a.py", '"""Used by none."""\n'),
        (nothing_of_this_machine, "README.md", f"see {MACHINE_PATHS[0]}x"),
        (nothing_of_this_machine, "requirements.lock", f"https://{REGISTRIES[0]}/simple"),
        (no_prints, "kcontrol/core/a.py", "print(1)\n"),
        (class_names_are_unique, "kcontrol/core/a.py", "class A: ...\nclass A: ...\n"),
        (pure_core, "kcontrol/core/a.py", "import numpy\n"),
        (pure_core, "kcontrol/core/a.py", "from kcontrol.wire import codec\n"),
        (one_partition_client, "kcontrol/apps/a.py", "FetchByIdRequest()\n"),
        (nothing_unfinished, "docs/a.md", "TO" + "DO: all of it"),
        (cited_pages_exist, "docs/a.md", "as decision " + "999 says"),
        (cited_pages_exist, "kcontrol/wire/a.py", '"""A sum (design ' + '3)."""\n'),
    ],
)
def test_each_rule_finds_what_it_is_for(rule: Rule, path: str, text: str) -> None:
    [offender] = (
        set(rule(Files({path: text}))) if rule is not pure_core else [next(rule(Files({path: text})))]
    )
    assert offender.startswith(path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("kcontrol/cli/a.py", '"""Prints."""\nprint(1)\n'),
        ("kcontrol/core/a.py", '"""Pure."""\nimport dataclasses\nfrom kcontrol.core import model\n'),
        ("kcontrol/core/a.py", '"""Long."""\n' + "x = 1\n" * (MAX_CORE_FILE_LINES - 1)),
        ("kcontrol/adapters/__init__.py", ""),
        ("kcontrol/core/__init__.py", '"""The core."""\n'),
    ],
)
def test_what_is_allowed(path: str, text: str) -> None:
    user = {"examples/user.py": '"""Uses it."""\nfrom kcontrol.cli import a\nfrom kcontrol.core import a\n'}
    assert [offender for rule in RULES for offender in rule(Files({path: text, **user}))] == []
