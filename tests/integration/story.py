"""One pipeline as a user has it who sits before a terminal: its topics, its files, and the commands about it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus
from tests.support.orders import PIPELINE_FILE, Orders
from tests.support.processes import run_kcontrol

PATIENCE_S = 240.0
"""For anything that a busy machine may take its time for."""


class Story:
    """One pipeline and the commands about it."""

    def __init__(self, settings: ClusterSettings, directory: Path, stem: str = "story") -> None:
        """stem: of the pipeline's name."""
        self.orders = Orders(settings.bootstrap_servers, f"{stem}-{secrets.token_hex(3)}")
        self.directory = directory
        self.env = {**self.orders.env, "XDG_DATA_HOME": str(directory / "home")}

    def command(self, *arguments: str, **env: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env={**self.env, **env}, cwd=self.directory, timeout_s=PATIENCE_S)

    def run(self, *arguments: str, **env: str) -> CompletedProcess[str]:
        return self.command(
            "run", str(PIPELINE_FILE), "--until-caught-up", "--master", "local[2]", *arguments, **env
        )

    def until(self, condition: Callable[[PipelineStatus], object], what: str) -> None:
        self.orders.until_status(condition, what, PATIENCE_S)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", self.orders.name, "--json").stdout)
        return found
