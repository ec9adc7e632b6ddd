"""What belongs to a pipeline's file: the modules beside it that it imports, and what else was named.

Nothing is taken by accident, and nothing is missed in silence: what is imported has to lie beside the file, be installed
here, or belong to Python.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from kcontrol.apps.agent.requirements import pinned
from kcontrol.errors import ConfigurationError
from kcontrol.settings.toml import FILE_NAME as SETTINGS_FILE
from kcontrol.wire.packages import MAX_BYTES, CodePackage, package_of

PRIVATE_KEY = b"PRIVATE KEY-----"


def pack(file: Path, included: Iterable[Path] = (), requirements: Path | None = None) -> CodePackage:
    """The package of a file. included: more files and folders, below the file's own. requirements: which names the libraries
    that hosts install for it, below that folder, too.

    Raises ConfigurationError: something is not there, not below the folder, too large, can't be imported, or is a secret.
    """
    if not file.is_file():
        raise ConfigurationError(f"there is no pipeline file {file}")
    root = file.resolve().parent
    found: set[Path] = set()
    waiting = [file.resolve(), *(one for path in included for one in _files(path, root))]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            waiting += _imported(path, root)
    if requirements is not None:
        found.add(_requirements(requirements, root))
    wanted = "" if requirements is None else requirements.resolve().relative_to(root).as_posix()
    return package_of(file.name, _contents(found, root), wanted)


def _requirements(path: Path, root: Path) -> Path:
    file = path.resolve()
    if not file.is_file() or not file.is_relative_to(root):
        raise ConfigurationError(
            f"--requirements {path}: it must be a file below {root}, where the pipeline's file is"
        )
    pinned(file.read_bytes(), str(path))
    return file


def _contents(files: Iterable[Path], root: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    left = MAX_BYTES
    for path in sorted(files):
        left -= path.stat().st_size
        if left < 0:
            raise ConfigurationError(
                f"the files of a package may have {MAX_BYTES} bytes together; with {path} it is more"
            )
        content = path.read_bytes()
        if path.name == SETTINGS_FILE or PRIVATE_KEY in content:
            raise ConfigurationError(
                f"{path} may hold secrets, and they stay on the hosts: whoever may read the cluster's topics could read them; "
                "leave it out, and put it on the hosts that need it"
            )
        contents[path.relative_to(root).as_posix()] = content
    return contents


def _files(path: Path, root: Path) -> Iterator[Path]:
    """A file, or all that are in a folder but what Python has compiled."""
    path = path.resolve()
    if not path.is_relative_to(root) or not path.exists():
        raise ConfigurationError(
            f"--include {path}: it must be a file or folder below {root}, where the pipeline's file is"
        )
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    for one in found:
        if one.is_file() and "__pycache__" not in one.parts:
            if one.is_symlink():
                raise ConfigurationError(f"--include {path}: {one} is a link: put the file there instead")
            yield one


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Files below the folder that a file imports, anywhere in it."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError(f"{file} is no Python file: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(alias.name, file, root, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, file, root)


def _from(node: ast.ImportFrom, file: Path, root: Path) -> Iterator[Path]:
    package = node.module or ""
    if node.level:
        base = file.parents[node.level - 1] if node.level <= len(file.relative_to(root).parts) else None
        if base is None:
            raise ConfigurationError(f"{file}, line {node.lineno}: what it imports lies outside of {root}")
        package = ".".join((*base.relative_to(root).parts, *filter(None, [package])))
    if package:
        yield from _module(package, file, root, node.lineno)
    for alias in node.names:
        yield from _local(f"{package}.{alias.name}" if package else alias.name, root)


def _module(name: str, file: Path, root: Path, line: int) -> Iterator[Path]:
    found = list(_local(name, root))
    first = name.partition(".")[0]
    if not found and first not in sys.stdlib_module_names and find_spec(first) is None:
        raise ConfigurationError(
            f"{file}, line {line}: it imports {name!r}, which is neither below {root} nor installed here: the hosts would not "
            "find it; put it beside the file, or install it here, and name it in --requirements or install it on every host"
        )
    yield from found


def _local(name: str, root: Path) -> Iterator[Path]:
    """The files of a module below the folder, with those of the packages that it is in; none if it is not there."""
    where = root
    for part in name.split("."):
        where = where / part
        if (where / "__init__.py").is_file():
            yield where / "__init__.py"
        elif where.with_suffix(".py").is_file():
            yield where.with_suffix(".py")
            return
        elif not where.is_dir():
            return
