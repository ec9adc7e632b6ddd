"""What both of the pipelines that chaos runs are made of."""

from __future__ import annotations

import kcontrol
from tests.chaos.names import MAX_RECORDS

INPUTS = (
    kcontrol.KafkaInput(
        "orders",
        topic="orders",
        value_format="json",
        schema="id BIGINT, user STRING, amount BIGINT",
        partitioned_by="user",
    ),
    kcontrol.KafkaInput("visits", topic="visits", partitioned_by="user"),
)
STEPS = kcontrol.StepPolicy(min_records=1, max_delay="50 ms", max_records=MAX_RECORDS)
LAYOUT = kcontrol.Layout(records_per_task=30)
"""Steps of a moment have one writer task, larger ones several in the same partitions."""
LIMITS = kcontrol.Limits(heartbeat_timeout="5 s", max_lost=100, backoff="100 ms", max_backoff="2 s")
