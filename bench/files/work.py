"""The files, and the work that both sides do with them. Imported by kcontrol's Python and by Spark's own, so it needs PySpark
and nothing else."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = "id STRING, amount INT, note STRING"
LINE_BYTES = 112
"""Of each, its end included, so that steps of as many bytes as a file has are a file each."""


def write_files(directory: Path, files: int, lines: int) -> None:
    """Each has as many bytes as any other."""
    for number in range(files):
        with (directory / f"{number:05}.ndjson").open("wb") as file:
            for line in range(number * lines, (number + 1) * lines):
                begin = b'{"id":"%012d","amount":%06d,"note":"' % (line, 100_000 + line % 900_000)
                file.write(begin + b"x" * (LINE_BYTES - len(begin) - 3) + b'"}\n')


def work(lines: DataFrame) -> DataFrame:
    """Half of the lines, as JSON again."""
    kept = lines.where(F.col("amount") % 2 == 0)
    return kept.select(F.to_json(F.struct("id", "amount", "note")).cast("binary").alias("value"))
