"""The pipelines that agents are given: as many as are asked for, each with topics of its own, and otherwise that of
`tests/chaos/pipeline.py`, so that its twin in plain Python is theirs as well."""

from __future__ import annotations

import os
from dataclasses import replace

import kcontrol
from tests.chaos.names import CHECKPOINT_EVERY_VARIABLE, CHECKPOINTS_VARIABLE, INPUTS, OUTPUTS
from tests.chaos.parts import INPUTS as DEFINED
from tests.chaos.parts import LAYOUT, LIMITS, STEPS

FILE = """from tests.chaos.hosts.pipelines import placed

pipeline = placed({name!r})
"""


def names(count: int) -> list[str]:
    """Of the pipelines."""
    return [f"chaos-{number}" for number in range(1, count + 1)]


def prefix_of(name: str) -> str:
    """Of the topics of a pipeline."""
    return f"{name}-"


def topics_of(name: str) -> dict[str, int]:
    """With their partitions."""
    return {prefix_of(name) + topic: count for topic, count in (INPUTS | OUTPUTS).items()}


def placed(name: str) -> kcontrol.Pipeline:
    """What the file of a pipeline defines."""
    from tests.chaos import pipeline as single  # Where checkpoints go has to be known before.

    where, every = prefix_of(name), os.environ.get(CHECKPOINT_EVERY_VARIABLE, "3 s")
    made = kcontrol.Pipeline(
        name,
        inputs=[replace(one, topic=where + one.name) for one in DEFINED],
        outputs=[
            kcontrol.KafkaOutput("totals", topic=f"{where}totals", value_format="json", key="user"),
            kcontrol.KafkaOutput("large", topic=f"{where}large", value_format="json"),
        ],
        checkpoint=kcontrol.Checkpoint(os.environ[CHECKPOINTS_VARIABLE], every=every, keep=2, shared=True),
        steps=STEPS,
        limits=LIMITS,
        layout=LAYOUT,
    )
    made.query(single.totals)
    made.query(single.large)
    return made
