"""What all of the pipelines that chaos runs are made of."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

import kcontrol
from tests.chaos.names import EXCHANGE, MAX_RECORDS

PARTITIONED_BY = None if EXCHANGE else "user"

INPUTS = (
    kcontrol.KafkaInput(
        "orders",
        topic="orders",
        value_format="json",
        schema="id BIGINT, user STRING, amount BIGINT",
        partitioned_by=PARTITIONED_BY,
    ),
    kcontrol.KafkaInput("visits", topic="visits", partitioned_by=PARTITIONED_BY),
)
STEPS = kcontrol.StepPolicy(min_records=1, max_delay="50 ms", max_records=MAX_RECORDS)
LAYOUT = kcontrol.Layout(records_per_task=30)
"""Steps of a moment have one writer task, larger ones several in the same partitions."""
LIMITS = kcontrol.Limits(heartbeat_timeout="5 s", max_lost=100, backoff="100 ms", max_backoff="2 s")

ROW_OUTPUTS = (kcontrol.KafkaOutput("totals", topic="totals"), kcontrol.KafkaOutput("large", topic="large"))
"""For rows that `outputs_row` makes."""


def outputs_row(output: str, key: Column, value: Column) -> Column:
    """A row for one of several outputs of a query. value: a struct, which is written as JSON."""
    return F.struct(
        F.lit(output).alias("output"),
        key.cast("string").cast("binary").alias("key"),
        F.to_json(value).cast("binary").alias("value"),
    )
