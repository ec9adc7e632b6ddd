"""The columns of the table. Imported by kcontrol's Python and by Spark's own, so it needs nothing."""

from __future__ import annotations

NAMES = ("id", "number", "customer", "amount", "note")
SCHEMA = "id BIGINT, number BIGINT, customer STRING, amount DOUBLE, note STRING"
"""As Spark and `kcontrol deliver --create` have them."""
POSTGRES = "id bigint NOT NULL, number bigint NOT NULL, customer text, amount double precision, note text"
TABLE, KEY = "rows", "id"
APPEND, UPSERT = "append", "upsert"
BATCHES = "spark_batches"
"""Beside the table: the last batch of Spark that it holds."""
