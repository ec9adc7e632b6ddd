"""One workload of the bench with Quix Streams, exactly once. Runs in the environment of
`requirements.lock`, which has Quix Streams and nothing of ours, until its standard input ends, which it does when the
bench does, however that ends.

One process works on one core: as many of them in one group share the partitions.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from quixstreams import Application, State

NUMBER_DIGITS = 12


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap-servers", "workload", "source", "sink", "group", "home"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--commit-ms", type=int, required=True)
    return parser.parse_args()


def counted(value: bytes, state: State) -> bytes:
    """The key's count and sum, this record included."""
    count, total = state.get("totals", (0, 0))
    count, total = count + 1, total + int(value[:NUMBER_DIGITS])
    state.set("totals", (count, total))
    return b"%d,%d" % (count, total)


def main() -> None:
    options = arguments()
    app = Application(
        broker_address=options.bootstrap_servers,
        consumer_group=options.group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=options.commit_ms / 1_000,
        state_dir=options.home,
        loglevel="WARNING",
    )
    raw = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    source = app.topic(options.source, **raw)
    sink = app.topic(options.sink, key_serializer="bytes", value_serializer="bytes")
    records = app.dataframe(source)
    if options.workload == "aggregate":
        records = records.apply(counted, stateful=True)
    if options.workload == "passthrough":
        records.to_topic(sink, key=lambda _: None)
    else:
        records.to_topic(sink)
    threading.Thread(target=end_with_the_bench, daemon=True).start()
    app.run()


def end_with_the_bench() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
