"""A Spark application that attaches to the bench's pipeline: `python -m bench.attached
BROKERS WORK_DIR MASTER SETTINGS`.

For settings of Spark that `kcontrol node` chooses itself and an application may choose otherwise: SETTINGS is
a JSON object of them. It ends when its pipeline is stopped, or when its standard input ends: whoever started
it is then gone.
"""

from __future__ import annotations

import json
import os
import sys
import threading

import kcontrol
from bench.queries import MODES, QUERIES


def main(arguments: list[str]) -> None:
    """Raises what ended the node."""
    from bench.pipeline import WORKLOAD, pipeline

    bootstrap_servers, work_dir, master, settings = arguments
    threading.Thread(target=_end_with_parent, daemon=True).start()
    spark = kcontrol.session("bench", master, json.loads(settings))
    app = kcontrol.attach(spark, pipeline, bootstrap_servers=bootstrap_servers, work_dir=work_dir)
    app.write(QUERIES[WORKLOAD](app.read("records")), "written", mode=MODES[WORKLOAD])
    app.start()
    app.await_termination()
    spark.stop()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
