"""A stream of steps without Kafka: step s of a directory is what was put there under s. As in kcontrol, the offset is the step,
and batch k is step k + 1."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

_TASKS = 2


class StepFrames(DataSource):
    @classmethod
    def name(cls) -> str:
        return "stepframes"

    def schema(self) -> str:
        return str(self.options["ddl"])

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _Reader(Path(self.options["directory"]))


class _Reader(DataSourceStreamReader):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def initialOffset(self) -> dict[str, int]:
        return {"step": 0}

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        step = start["step"] + 1
        return {"step": step} if (self._directory / f"{step}.json").exists() else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((end["step"], task)) for task in range(_TASKS)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        step, task = partition.value
        rows = json.loads((self._directory / f"{step}.json").read_text())
        # Rows of one user stay in their order, whoever else's are there.
        yield from (tuple(row) for row in rows if sum(row[0].encode()) % _TASKS == task)


def read_steps(spark: SparkSession, directory: Path, ddl: str) -> DataFrame:
    spark.dataSource.register(StepFrames)
    return spark.readStream.format("stepframes").option("directory", str(directory)).option("ddl", ddl).load()


def put_step(directory: Path, step: int, rows: Sequence[Sequence[Any]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    staging = directory / f".{step}"
    staging.write_text(json.dumps(rows))
    staging.rename(directory / f"{step}.json")
