"""A table of Iceberg in a warehouse of files, with a catalog in SQLite or PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from kcontrol.adapters.lake.iceberg import STEP

CATALOG, NAME = "life", "shop.totals"


def describe(path: Path, uri: str = "", put: Callable[[str, str], None] = os.environ.__setitem__) -> None:
    """For pyiceberg, in variables, as users do. uri: of the catalog; '' for one in a file below the path."""
    for name, value in _settings(path, uri).items():
        put(f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}", value)


def make_catalog(path: Path, uri: str = "") -> None:
    """Without tables."""
    path.mkdir(parents=True, exist_ok=True)
    with catalog_of(path, uri):
        pass


@contextmanager
def iceberg_table(path: Path, uri: str = "", catalog: str = CATALOG) -> Iterator[Table | None]:
    """None: there is none."""
    with catalog_of(path, uri, catalog) as found:
        try:
            yield found.load_table(NAME)
        except NoSuchTableError:
            yield None


def iceberg_rows(path: Path, uri: str = "") -> list[tuple[int, ...]]:
    """As any reader finds them, sorted."""
    with iceberg_table(path, uri) as table:
        found = [] if table is None else table.scan().to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in ("step", "key", "value")) for row in found)


def iceberg_steps(path: Path, uri: str = "", catalog: str = CATALOG) -> list[int]:
    """In the snapshots that led to what the branch has, in their order."""
    steps: list[int] = []
    with iceberg_table(path, uri, catalog) as table:
        at = None if table is None else table.current_snapshot()
        while table is not None and at is not None:
            said = at.summary.additional_properties if at.summary else {}
            steps += [int(said[STEP])] if STEP in said else []
            at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
    return steps[::-1]


@contextmanager
def catalog_of(path: Path, uri: str = "", name: str = CATALOG) -> Iterator[SqlCatalog]:
    """For a block. It is made if it is not there."""
    with closing(SqlCatalog(name, **_settings(path, uri))) as catalog:
        yield catalog


def _settings(path: Path, uri: str) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": uri or f"sqlite:///{path}/catalog.db",
        "warehouse": f"file://{path}/warehouse",
    }
