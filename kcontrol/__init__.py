"""Event-sourced control plane that lives in Kafka and runs PySpark pipelines step by step, exactly once."""

from __future__ import annotations

__version__ = "0.1.0"
