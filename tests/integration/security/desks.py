"""A desk for each principal: a directory with a kcontrol.toml of its own, and commands that are run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from kcontrol.settings.cluster import ClusterSettings
from tests.support.processes import KcontrolProcess, run_kcontrol

_FILE = """[kafka]
bootstrap_servers = "{servers}"
prefix = "{prefix}"

[kafka.client]
{client}
"""


@dataclass
class Desk:
    """Where one principal works. The password is in the environment, not in the file. said:
    everything its commands printed."""

    directory: Path
    settings: ClusterSettings
    env: Mapping[str, str] = field(default_factory=dict)
    said: str = ""

    def __post_init__(self) -> None:
        self.directory.mkdir()
        shown = {**self.settings.client, "sasl.password": "${KAFKA_PASSWORD}"}
        client = "\n".join(f'"{name}" = "{value}"' for name, value in shown.items())
        text = _FILE.format(
            servers=self.settings.bootstrap_servers, prefix=self.settings.prefix, client=client
        )
        (self.directory / "kcontrol.toml").write_text(text)
        home = str(self.directory / "home")
        self.env = {
            **self.env,
            "KAFKA_PASSWORD": self.settings.client["sasl.password"],
            "XDG_DATA_HOME": home,
        }

    def command(self, *arguments: str, timeout_s: float = 240.0) -> CompletedProcess[str]:
        """Run `kcontrol ...` to its end."""
        result = run_kcontrol(*arguments, env=self.env, cwd=self.directory, timeout_s=timeout_s)
        self.said += result.stdout + result.stderr
        return result

    def process(self, *arguments: str, module: str = "kcontrol.cli") -> KcontrolProcess:
        """A long-running command, not started yet."""
        log = self.directory / "process.log"
        return KcontrolProcess(*arguments, log=log, env=self.env, cwd=self.directory, module=module)
