"""The public names: all there, and defining a pipeline loads neither Spark nor a Kafka client."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kcontrol
from tests.support.patience import HANG_S

DEFINE = """
import sys
import kcontrol

kcontrol.Pipeline(
    "p",
    inputs=[kcontrol.KafkaInput("a", topic="a")],
    outputs=[kcontrol.KafkaOutput("b", topic="b")],
    steps=kcontrol.StepPolicy(),
    checkpoint=kcontrol.Checkpoint("file:///c"),
)
print(*sorted({"pyspark", "aiokafka", "confluent_kafka", "faust", "numba", "pyarrow"} & set(sys.modules)))
"""


def test_defining_a_pipeline_loads_nothing_heavy() -> None:
    run = subprocess.run(
        [sys.executable, "-c", DEFINE], check=True, capture_output=True, text=True, timeout=HANG_S
    )
    assert run.stdout.strip() == ""


@pytest.mark.parametrize("name", kcontrol.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(kcontrol, name)
    assert name == "__version__" or value.__doc__
    assert name in dir(kcontrol)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'kcontrol' has no attribute 'Pipelines'"):
        _ = kcontrol.Pipelines
