"""Copies of Spark's directories that cost no copying: hard links, except where Spark has
written down where a file lies.

Spark replaces files by renaming, never in place, so a link stays what it was. Only stateful operators'
metadata name files by absolute path; they are copied with the path changed: to another incarnation's
directory, or to a mark that no path contains (for a pin, which may be restored anywhere) and back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kcontrol.adapters.spark.state.pinning import LOGS, OPERATOR_METADATA, is_stray

HISTORY_MARK = "{kcontrol:history}"
"""Stands in a pin for the directory of the history that it is of."""


def link_tree(source: Path, below: str, target: Path, final: Path) -> None:
    """Hard links of all files of `source` that are under `below`; metadata are made to fit `final`.

    The source may still be written to by a zombie: commits are linked first, because what they name was there
    before them, and a file that vanishes on the way was no longer needed.
    """
    files = sorted(
        (source / below).rglob("*"),
        key=lambda path: (path.parent.name not in LOGS, path.parent.name != "commits", path),
    )
    for path in files:
        if path.is_dir() or is_stray(path.name):
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if OPERATOR_METADATA in path.parts:
                _copy_changed(path, place, str(source), str(final))
            else:
                os.link(path, place)
        except FileNotFoundError:
            continue


def link_pin(query: Path, files: Iterable[Path], target: Path, history: Path) -> None:
    """Hard links of some of a query's files, with metadata that are free of `history`. Raises
    FileNotFoundError."""
    for path in files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if OPERATOR_METADATA in path.parts:
            _copy_changed(query / path, place, str(history), HISTORY_MARK)
        else:
            os.link(query / path, place)


def fit_restored(directory: Path, history: Path) -> None:
    """Make the metadata of restored files name `history`, where they will lie."""
    for path in directory.rglob("*"):
        if OPERATOR_METADATA in path.relative_to(directory).parts and path.is_file():
            _copy_changed(path, path, HISTORY_MARK, str(history))


def _copy_changed(path: Path, place: Path, before: str, after: str) -> None:
    if path.suffix == ".crc":
        return  # of what the file was; Spark does without
    place.write_bytes(path.read_bytes().replace(before.encode(), after.encode()))
