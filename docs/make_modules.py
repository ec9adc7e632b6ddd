"""Draws which package imports which, from the imports themselves: `python -m
docs.make_modules > docs/diagrams/modules.md`.

An arrow that follows from others is left out (transitive reduction), so that what is
seen is the order of the layers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "kcontrol": "The whole",
    "kcontrol.core": "Within the core",
    "kcontrol.adapters": "Between the adapters",
    "kcontrol.adapters.kafka": "Within Kafka's adapter",
    "kcontrol.adapters.spark": "Within Spark's adapter",
}
LEFT_OUT = frozenset({"errors", "version", "schemas"})
"""Used from everywhere, and of no layer."""

Graph = dict[str, set[str]]


def imports(root: Path = ROOT) -> dict[str, set[str]]:
    """By module of kcontrol, what it imports of kcontrol, wherever in the module it does."""
    found: dict[str, set[str]] = {}
    for path in sorted((root / "kcontrol").rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[module] = set(_imported(ast.parse(path.read_text(encoding="utf-8"))))
    modules = frozenset(found)
    return {module: {_module(name, modules) for name in names} for module, names in found.items()}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("kcontrol."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kcontrol":
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _module(name: str, modules: frozenset[str]) -> str:
    """The module that a name is taken from; the name itself if it is one."""
    return name if name in modules else name.rpartition(".")[0]


def graph(imported: Mapping[str, set[str]], package: str) -> Graph:
    """By part of a package (a module or package in it), the parts that it imports."""
    parts: Graph = {}
    for module, names in imported.items():
        part = _part(module, package)
        if part:
            parts.setdefault(part, set()).update(filter(None, (_part(name, package) for name in names)))
    return {part: {name for name in names if name != part and name in parts} for part, names in parts.items()}


def _part(module: str, package: str) -> str:
    """'' for what lies elsewhere, for the package itself, and for what is used from everywhere."""
    first = module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else ""
    return "" if first in LEFT_OUT else first


def reduced(found: Graph) -> Graph:
    """Without the arrows that others imply. A circle keeps all of its own."""
    return {
        part: {
            name
            for name in names
            if not any(name in _reached(found, other, part) for other in names - {name})
        }
        for part, names in found.items()
    }


def _reached(found: Graph, begin: str, without: str) -> set[str]:
    reached: set[str] = set()
    left = [begin]
    while left:
        for name in found[left.pop()] - reached - {without}:
            reached.add(name)
            left.append(name)
    return reached


def mermaid(found: Graph) -> str:
    """As a Mermaid flowchart, importers above what they import."""
    lines = ["flowchart TD"]
    lines += [f"    {part}" for part, names in sorted(found.items()) if not names]
    lines += [f"    {part} --> {name}" for part, names in sorted(found.items()) for name in sorted(names)]
    return "\n".join(lines)


def document() -> str:
    """The page."""
    imported = imports()
    page = [
        "# The modules\n\n<!-- made by `python -m docs.make_modules`; tests/unit/test_modules_page.py "
        "compares -->\n\nWhich part imports which, drawn from the imports. An arrow that follows from "
        "others is left out, and so are\n`errors` and `version`, which all may use. Import-linter's "
        "contracts in `pyproject.toml` keep it so.\n"
    ]
    for package, title in SECTIONS.items():
        inside = [module for module in imported if module == package or module.startswith(f"{package}.")]
        drawn = mermaid(reduced(graph(imported, package)))
        counted = f"`{package}`: {len(inside)} modules."
        page.append(f"\n## {title}\n\n{counted}\n\n```mermaid\n{drawn}\n```\n")
    return "".join(page)


if __name__ == "__main__":
    sys.stdout.write(document())
