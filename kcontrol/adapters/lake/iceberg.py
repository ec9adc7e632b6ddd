"""A table of Iceberg. A step is one snapshot, whose summary has the step's number; the same commit puts it into a property of
the table, for when snapshots expire.

A commit names the snapshot that the branch must be at, and the catalog compares. What would undo that is the library's
habit of putting a refused commit on top of whatever is there by then, up to four times and without a word
(`commit.retry.num-retries`): it is switched off in this process's copy of the table, at each commit.

Whatever a delivery writes moves the branch, its beginning and its end too, so whoever has looked before is refused.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from kcontrol.adapters.lake.iceberg_library import iceberg_errors_told, load_pyiceberg
from kcontrol.adapters.lake.record import TableDelivery, table_delivery
from kcontrol.adapters.lake.types import columns_told, schema_of
from kcontrol.core.step.following import Applied
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError

STEP, PRINT, GENERATION = "kcontrol.step", "kcontrol.print", "kcontrol.generation"
"""In the summary of each snapshot that adds a step; the generation in that of a beginning, too."""
PROVED = ("sql",)
"""Types of catalogs whose comparison is known to hold, from races."""
_NEW_TABLE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Of a table that is made here: or a thousand steps leave a thousand manifests, and as many whole metadata files."""


class IcebergSteps:
    """A StepTable. Of one output; a table may have those of several."""

    kind = "iceberg"

    def __init__(
        self,
        catalog: str,
        table: str,
        pipeline: str,
        output: str,
        ddl: str | None = None,
        *,
        adopts: bool = False,
    ) -> None:
        """catalog: its name in pyiceberg's configuration. table: with its namespace. ddl: the columns, if there is no table
        yet. adopts: `forget` takes the table as it is. Raises ConfigurationError: the columns are none, the catalog is not
        known or of a type that is not, or the library is not installed."""
        self._library = load_pyiceberg()
        self._catalog_name, self._name = catalog, table
        self._pipeline, self._output, self._adopts = pipeline, output, adopts
        self._property = f"kcontrol.{pipeline}.{output}"
        self._step_property = f"kcontrol-step.{pipeline}.{output}"
        self._asked = None if ddl is None else schema_of(ddl)
        self._settings = self._settings_of_catalog()
        self._catalog: Any = None
        self._table: Any = None
        self._schema: pa.Schema | None = None
        self._generation = ""

    def __str__(self) -> str:
        return f"{self._catalog_name}/{self._name}"

    def _settings_of_catalog(self) -> dict[str, str]:
        known = self._library.Config().get_catalog_config(self._catalog_name)
        if known is None:
            raise ConfigurationError(
                f"pyiceberg knows no catalog {self._catalog_name!r}: describe it in ~/.pyiceberg.yaml, or in variables "
                f"PYICEBERG_CATALOG__{self._catalog_name.upper()}__URI and so on"
            )
        kind = str(known.get("type", "none")).lower()
        if kind not in PROVED:
            raise ConfigurationError(
                f"catalog {self._catalog_name!r} is of type {kind}: kcontrol deliver takes those of type "
                f"{', '.join(PROVED)}, of which it is proved that two can't commit the same step"
            )
        # Or whoever mistypes the address of the database gets an empty catalog.
        return {**known, "init_catalog_tables": "false", "pool_pre_ping": "true"}

    def open(self) -> pa.Schema:
        """See StepTable."""
        self._generation = ""
        with self._told():
            if self._catalog is not None:
                self._catalog.close()
            self._catalog = self._library.load_catalog(self._catalog_name, **self._settings)
            self._load_or_make()
            if not self._table.spec().is_unpartitioned():
                raise DeliveryHaltedError(
                    f"{self}: is partitioned, which pyiceberg can't write to in a stream: give a table without partitions"
                )
            self._schema = self._columns(self._table.schema())
        if self._asked is not None and not self._is_as_asked(self._asked):
            raise DeliveryHaltedError(
                f"{self}: has other columns than --create says: it has {columns_told(self._schema)}; asked was "
                f"{columns_told(self._asked)}. Leave --create out, or deliver to another table"
            )
        return self._schema

    def _is_as_asked(self, asked: pa.Schema) -> bool:
        """Iceberg has fewer types than Arrow."""
        try:
            wanted = self._library.pyarrow_to_schema(asked, name_mapping=self._table.schema().name_mapping)
        except ValueError:
            return False
        return bool(self._columns(wanted).equals(self._schema))

    def _load_or_make(self) -> None:
        try:
            self._load()
        except self._library.exceptions.NoSuchTableError:
            if self._asked is None:
                raise DeliveryHaltedError(
                    f"{self}: there is no such table: make one, or give its columns with --create 'NAME TYPE, ...'"
                ) from None
            # Of two that make it, one finds it there.
            namespace = self._name.rpartition(".")[0]
            self._catalog.create_namespace_if_not_exists(namespace)
            self._table = self._catalog.create_table_if_not_exists(
                self._name, self._asked, properties=_NEW_TABLE
            )

    def _columns(self, schema: Any) -> pa.Schema:
        return self._library.schema_to_pyarrow(schema, include_field_ids=False)

    def _load(self) -> None:
        self._table = self._catalog.load_table(self._name)

    def _told(self) -> AbstractContextManager[None]:
        """Errors as kcontrol's. Of files that were there once it is waited for the disk that they are on."""
        return iceberg_errors_told(str(self), was_there=self._table is not None)

    def read(self) -> Applied | None:
        """See StepTable."""
        with self._told():
            self._load()
            found = self._delivery()
            if found is None:
                return None
            step, its_print = self._newest(found)
            return found.applied(step, its_print)

    def begin(self, log_id: str, step: int) -> None:
        """See StepTable."""
        made = TableDelivery(self._pipeline, self._output, log_id, step, secrets.token_hex(8))
        with self._told():
            self._commit({GENERATION: made.generation}, {self._property: made.text()})

    def forget(self) -> None:
        """See StepTable."""
        with self._told():
            self._load()
            if not self._adopts and next(iter(self._table.scan().plan_files()), None) is not None:
                raise DeliveryHaltedError(
                    f"{self}: it is not empty, so nothing begins anew: delete all of its rows first; or, if it holds what the "
                    "steps before --start have given, say so with --adopt"
                )
            if self._delivery() is not None:
                self._commit({"kcontrol.forgotten": self._generation}, {self._property: ""})
        self._generation = ""

    def clear(self) -> None:
        """See StepTable. Files that no snapshot names are orphans; whoever wrote them finds that the table has moved on."""

    def add(self, now: Applied, committed_ms: int, batches: Iterator[pa.RecordBatch]) -> None:
        """See StepTable."""
        found = self._delivery()
        if found is None or self._schema is None:
            raise TargetAwayError(f"{self}: the delivery was begun anew by another process")
        summary = {
            STEP: str(now.step),
            PRINT: now.print,
            GENERATION: found.generation,
            "kcontrol.committed_ms": str(committed_ms),
        }
        with self._told():
            self._commit(summary, {}, pa.RecordBatchReader.from_batches(self._schema, batches))

    def _commit(
        self,
        summary: Mapping[str, str],
        properties: Mapping[str, str],
        rows: pa.RecordBatchReader | None = None,
    ) -> None:
        """On top of the snapshot that was read, or not at all."""
        if self._schema is None:
            raise DeliveryHaltedError(f"{self}: not open")
        self._table.metadata.properties[self._library.TableProperties.COMMIT_NUM_RETRIES] = "0"
        names = {"kcontrol.pipeline": self._pipeline, "kcontrol.output": self._output}
        transaction = self._table.transaction()
        transaction.append(
            self._schema.empty_table() if rows is None else rows, snapshot_properties={**summary, **names}
        )
        made = transaction.table_metadata.current_snapshot()
        if STEP in summary:
            kept = {key: summary[key] for key in (STEP, PRINT, GENERATION)}
            kept |= {"snapshot": str(made.snapshot_id), "sequence": str(made.sequence_number)}
            properties = {**properties, self._step_property: json.dumps(kept)}
        transaction.set_properties(dict(properties))
        transaction.commit_transaction()

    def _delivery(self) -> TableDelivery | None:
        text = self._table.metadata.properties.get(self._property)
        if not text:
            return None
        found = table_delivery(text, self._generation, str(self))
        self._generation = found.generation
        return found

    def _newest(self, found: TableDelivery) -> tuple[int | None, str]:
        """Of the steps in what the branch has now: a table that was rolled back has no later ones."""
        metadata = self._table.metadata
        snapshots = {each.snapshot_id: each for each in metadata.snapshots}
        head = at = metadata.current_snapshot()
        while at is not None:
            summary = at.summary.additional_properties if at.summary else {}
            if summary.get(GENERATION) == found.generation:
                return (int(summary[STEP]) if STEP in summary else None), summary.get(PRINT, "")
            at = snapshots.get(at.parent_snapshot_id)
        kept = json.loads(metadata.properties.get(self._step_property, "{}"))
        if kept.get(GENERATION) != found.generation:
            return None, ""
        has_gone_back = head is None or (head.sequence_number or 0) < int(kept["sequence"])
        if has_gone_back or int(kept["snapshot"]) in snapshots:
            raise DeliveryHaltedError(
                f"{self}: was taken back to before the delivery of output {self._output!r} to it began, and held step "
                f"{kept[STEP]}: bring it forward again, or begin anew with --resync"
            )
        return int(kept[STEP]), kept[PRINT]
