"""The replay suite drives the same engine as the integration tests of Spark."""

from __future__ import annotations

from tests.integration.spark.conftest import play, run_scenario, spark

__all__ = ["play", "run_scenario", "spark"]
