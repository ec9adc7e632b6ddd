"""How the tasks of a small step compute: by interpreting expressions instead of by code that is generated for them.

Beside the code of whole stages, which is made once for a plan, Spark's operators generate code for each projection of keys and
values, in each task anew. What is the same is compiled once, but its text is made, and tidied with regular expressions, to find
that out: for a step of a hundred records that is a sixth of what its tasks compute. Spark can also interpret
such a projection, and does where generated code becomes too long; it gives the same, and costs more for each row. See
docs/decisions/132-small-steps-interpreted.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.session.conf import whole_number

RECORDS_SETTING = "spark.kcontrol.interpretedRecords"
"""Steps with so many records at most, on this node, are computed so; 0: none."""
RECORDS = 10_000
_FACTORY = "spark.sql.codegen.factoryMode"
"""Spark's setting, which tasks find among the properties of their job."""
_INTERPRETED, _AS_EVER = "NO_CODEGEN", "FALLBACK"


def interpreted_records(spark: SparkSession) -> int:
    """What the session's configuration says of RECORDS_SETTING; 0 where its user has chosen how Spark computes. Raises
    SparkSettingError."""
    text = spark.conf.get(RECORDS_SETTING, str(RECORDS)) or ""
    records = whole_number(RECORDS_SETTING, text, "a number of records, 0 or more")
    return 0 if _FACTORY in spark.conf.getAll else records


class SmallSteps:
    """Chooses for the jobs of one query's thread, which calls it. inputs, exchanges: that the query reads. records: see
    `interpreted_records`."""

    def __init__(
        self, spark: SparkSession, inputs: Sequence[str], exchanges: Sequence[str], records: int
    ) -> None:
        self._context, self._records = spark.sparkContext, records
        self._inputs, self._exchanges = inputs, exchanges
        self._interpreted = False

    def next_is_like(self, attempt: AttemptLedger) -> None:
        """The jobs that begin from now on are for this attempt, or for one that is not known and follows closely on it."""
        tasks = (task for name in self._inputs for task in attempt.source_tasks(name))
        offsets = sum(split.to - split.from_ for task in tasks for split in task)
        offsets += sum(run.records for name in self._exchanges for run in attempt.exchanging.ready(name))
        interpreted = 0 < offsets <= self._records
        if interpreted != self._interpreted:
            self._context.setLocalProperty(_FACTORY, _INTERPRETED if interpreted else _AS_EVER)
            self._interpreted = interpreted
