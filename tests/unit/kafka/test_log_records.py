"""What a reader of kcontrol's own logs sees of transactions is what a reader of data sees of them."""

from __future__ import annotations

from random import Random

import pytest

from kcontrol.adapters.kafka.logs.records import visible_records
from kcontrol.wire.batches import Fetched, codec_named
from tests.unit.kafka.test_input_gaps import made


@pytest.mark.parametrize("seed", range(40))
def test_a_log_shows_the_records_that_a_task_is_shown(seed: int) -> None:
    log, transactions = made(Random(seed))
    data, aborted = log.encode(), [(producer, first) for producer, first, _ in transactions]
    seen = visible_records(data, 0, aborted, "t")
    runs = list(Fetched(data, "t").decode(codec_named("reference"), aborted, 0, 2**62))
    assert [record.offset for record in seen.records] == [
        at for run in runs for at in run.rows.column("offset").to_pylist()
    ]
    assert seen.next_offset == Fetched(data, "t").next_offset(0)
