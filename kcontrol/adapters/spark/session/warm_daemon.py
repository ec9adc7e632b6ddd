"""The module that `spark.python.daemon.module` names: PySpark's worker daemon, warmed up before it forks.

PySpark's worker collects garbage after every task: 45 ms of CPU with pandas and pyarrow loaded, 6 ms with what
kcontrol's own tasks import. Importing all of it here, once, and freezing it out of the collector leaves less
than 1 ms, and every forked worker starts with the codec compiled. It must be importable by the executors'
Python (an image or archive, not `--py-files`).
"""

from __future__ import annotations

import gc


def warm_up() -> None:
    """Import and compile what tasks use, then put it out of the garbage collector's sight. Begins no thread: the
    workers are forked from this process."""
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import pyspark.sql.conversion
    import pyspark.sql.pandas.types
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.worker  # noqa: F401

    import kcontrol.adapters.kafka.exchange.reader
    import kcontrol.adapters.spark.channel.placement_check
    import kcontrol.adapters.spark.channel.reporting
    import kcontrol.adapters.spark.sink.sending
    import kcontrol.adapters.spark.sink.sent_as_read
    import kcontrol.adapters.spark.sink.sent_columns
    import kcontrol.adapters.spark.sink.tasks
    import kcontrol.adapters.spark.source.data_source
    import kcontrol.adapters.spark.source.exchange_source
    import kcontrol.adapters.spark.source.reading  # noqa: F401
    from kcontrol.settings.handover import hand_over_soon
    from kcontrol.wire import batches, row_hash

    hand_over_soon()
    batches.warm()
    row_hash.warm()

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark import daemon

    warm_up()
    daemon.manager()
