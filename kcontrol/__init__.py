"""Event-sourced control plane that lives in Kafka and runs PySpark pipelines step by step, exactly once.

The public names. They are loaded when they are first used: defining a pipeline needs
neither Spark nor a Kafka client.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcontrol.version import __version__

if TYPE_CHECKING:
    from kcontrol.adapters.spark.query.changes import newest_rows
    from kcontrol.adapters.spark.session.build import session
    from kcontrol.apps.attach import attach
    from kcontrol.apps.regions.consumer import RegionConsumer
    from kcontrol.apps.regions.member import RegionMember
    from kcontrol.apps.step_consumer import StepConsumer
    from kcontrol.definition.exchanges import exchange
    from kcontrol.definition.files import FileInput
    from kcontrol.definition.frames import output, outputs
    from kcontrol.definition.generated import ClockInput, GeneratorInput
    from kcontrol.definition.limits import Limits
    from kcontrol.definition.parts import CheckpointPolicy as Checkpoint
    from kcontrol.definition.parts import KafkaInput, KafkaOutput, StepPolicy
    from kcontrol.definition.parts import TaskLayout as Layout
    from kcontrol.definition.pipeline import Pipeline
    from kcontrol.definition.rebalance import Rebalance
    from kcontrol.views.completion import completion_token

OLDEST_PYTHON = (3, 11)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> None:
    """Raise ImportError for a Python that is too old: what comes after would fail with a syntax error
    somewhere."""
    if version[:2] < OLDEST_PYTHON:
        raise ImportError(
            f"kcontrol needs Python 3.11 or newer; this is {'.'.join(map(str, version))}, at {sys.executable}"
        )


check_python()

__all__ = [
    "Checkpoint",
    "ClockInput",
    "FileInput",
    "GeneratorInput",
    "KafkaInput",
    "KafkaOutput",
    "Layout",
    "Limits",
    "Pipeline",
    "Rebalance",
    "RegionConsumer",
    "RegionMember",
    "StepConsumer",
    "StepPolicy",
    "__version__",
    "attach",
    "completion_token",
    "exchange",
    "newest_rows",
    "output",
    "outputs",
    "session",
]

_MODULES = {
    "Checkpoint": "kcontrol.definition.parts",
    "ClockInput": "kcontrol.definition.generated",
    "FileInput": "kcontrol.definition.files",
    "GeneratorInput": "kcontrol.definition.generated",
    "KafkaInput": "kcontrol.definition.parts",
    "KafkaOutput": "kcontrol.definition.parts",
    "Layout": "kcontrol.definition.parts",
    "Limits": "kcontrol.definition.limits",
    "Pipeline": "kcontrol.definition.pipeline",
    "Rebalance": "kcontrol.definition.rebalance",
    "RegionConsumer": "kcontrol.apps.regions.consumer",
    "RegionMember": "kcontrol.apps.regions.member",
    "StepConsumer": "kcontrol.apps.step_consumer",
    "StepPolicy": "kcontrol.definition.parts",
    "attach": "kcontrol.apps.attach",
    "completion_token": "kcontrol.views.completion",
    "exchange": "kcontrol.definition.exchanges",
    "newest_rows": "kcontrol.adapters.spark.query.changes",
    "output": "kcontrol.definition.frames",
    "outputs": "kcontrol.definition.frames",
    "session": "kcontrol.adapters.spark.session.build",
}

_WITHIN = {"Checkpoint": "CheckpointPolicy", "Layout": "TaskLayout"}
"""What is called otherwise within the package, where a record bears the name."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'kcontrol' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), _WITHIN.get(name, name))
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
