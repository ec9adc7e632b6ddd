"""The house rules that a machine can check, over the whole repository; all offenders are listed at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


@dataclass
class Facts:
    """Of one Python file, all that the rules ask of its syntax."""

    documented: bool
    is_code: bool
    """It holds more than its docstring."""
    classes: list[str] = field(default_factory=list)
    """Those of the module itself."""
    functions: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, first line, and how many there are."""
    calls: list[tuple[str, int]] = field(default_factory=list)
    """What is called by its name alone, and the line."""
    imports: set[str] = field(default_factory=set)
    """Dotted names of what is imported, names taken out of modules included."""
    strings: set[str] = field(default_factory=set)

    def see(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                self.functions.append((node.name, node.lineno, lines))
            case ast.Call(func=ast.Name(id=name)):
                self.calls.append((name, node.lineno))
            case ast.Import():
                self.imports |= {each.name for each in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                self.imports |= {module, *(f"{module}.{each.name}" for each in node.names)}
            case ast.Constant(value=str(text)):
                self.strings.add(text)


class Module:
    """One Python file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def facts(self) -> Facts:
        """The tree is not kept: to go through it once for each rule takes longer than to make it, and to look for garbage among
        millions of its nodes as long again."""
        tree = ast.parse(self.text, self.path)
        found = Facts(bool(ast.get_docstring(tree)) or not tree.body, bool(tree.body[1:]))
        found.classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in ast.walk(tree):
            if type(node) in _TELLING:
                found.see(node)
        return found

    @cached_property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Files(dict[str, str]):
    """Their texts by path."""

    @cached_property
    def modules(self) -> list[Module]:
        """Once for all rules: to parse them takes longer than any rule does."""
        return [Module(path, text) for path, text in self.items() if path.endswith(".py")]


_TELLING = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.Call, ast.Import, ast.ImportFrom, ast.Constant}
)
"""Kinds of nodes that tell something that a rule asks for."""
Rule = Callable[[Files], Iterator[str]]


def short_files(files: Files) -> Iterator[str]:
    for module in files.modules:
        lines = len(module.text.splitlines())
        most = MAX_CORE_FILE_LINES if module.path.startswith("kcontrol/core/") else MAX_FILE_LINES
        if lines > most:
            yield f"{module.path}: {lines} lines, more than {most}: split it by what it is about"


def short_functions(files: Files) -> Iterator[str]:
    for module in files.modules:
        for name, line, lines in module.facts.functions:
            if lines > MAX_FUNCTION_LINES:
                yield f"{module.path}:{line}: {name} has {lines} lines, more than {MAX_FUNCTION_LINES}"


def docstrings(files: Files) -> Iterator[str]:
    for module in files.modules:
        if not module.facts.documented:
            yield f"{module.path}:1: no docstring: say what the module is for"


def class_names_are_unique(files: Files) -> Iterator[str]:
    """Within kcontrol. A name within the package may not be that of another thing: see docs/glossary.md."""
    found: dict[str, list[str]] = {}
    for module in files.modules:
        if module.path.startswith("kcontrol/"):
            for name in module.facts.classes:
                found.setdefault(name, []).append(module.path)
    for name, paths in found.items():
        if len(paths) > 1:
            yield f"{paths[1]}: class {name} is in {paths[0]}, too: name one of them for what it is"


def no_orphans(files: Files) -> Iterator[str]:
    users = Counter(
        name
        for module in files.modules
        if not module.path.startswith("tests/")
        for name in (module.facts.imports | module.facts.strings) - {module.name}
    )
    for module in files.modules:
        if (
            not module.name.startswith("kcontrol")
            or module.name in ENTRY_POINTS
            or module.path.endswith("__main__.py")
        ):
            continue
        if module.path.endswith("__init__.py") and not module.facts.is_code:
            continue
        if not users[module.name]:
            yield f"{module.path}: nobody imports it, apart from tests"


def nothing_of_this_machine(files: Files) -> Iterator[str]:
    words = (*MACHINE_PATHS, *REGISTRIES)
    for path, text in files.items():
        here = [word for word in words if word in text]
        for number, line in enumerate(text.splitlines() if here else (), 1):
            for word in here:
                if word in line:
                    yield f"{path}:{number}: names {word!r}"


def no_prints(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/") and not module.path.startswith("kcontrol/cli/"):
            for name, line in module.facts.calls:
                if name == "print":
                    yield f"{module.path}:{line}: prints; only the command line does"


def pure_core(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/core/"):
            for name in sorted(module.facts.imports):
                if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(
                    ("kcontrol.core", "kcontrol.errors")
                ):
                    yield f"{module.path}: imports {name}; the core uses the standard library only"


def one_partition_client(files: Files) -> Iterator[str]:
    for module in files.modules:
        if module.path.startswith("kcontrol/") and module.path != PARTITION_CLIENT:
            for name, line in module.facts.calls:
                if name in PARTITION_REQUESTS:
                    yield f"{module.path}:{line}: makes a {name}; only {PARTITION_CLIENT} does"


def nothing_unfinished(files: Files) -> Iterator[str]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines() if UNFINISHED.search(text) else (), 1):
            if UNFINISHED.search(line):
                yield f"{path}:{number}: leaves something undone"


def cited_pages_exist(files: Files) -> Iterator[str]:
    """Decisions are cited by number, such as `decision 005`; nothing else is, as
    sections of a document change theirs."""
    there = {path.removeprefix(DECISIONS)[:3] for path in files if path.startswith(DECISIONS)}
    for path, text in files.items():
        here = CITED.search(text) or SECTION.search(text)
        for number, line in enumerate(text.splitlines() if here else (), 1):
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
