"""`python -m tests.integration.agents NAME SERVERS PREFIX FOLDER`: an agent as `kcontrol agent` runs it,
whose units are processes that write down who they are and sleep. So is its coordinator, as index -1, unless there is a file
`broken-NAME` in the folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcontrol.apps.agent.serve import AgentOptions, serve
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.model import ClusterJob, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.settings.cluster import ClusterSettings


@dataclass(frozen=True)
class Sleepers:
    """The commands of units."""

    name: str
    told: Path

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        script = f'echo "{self.name} {unit[2]} {job.revision} $$" >> {self.told}; exec sleep 600'
        return ("sh", "-c", script)

    def keep(self, packages: Collection[str]) -> None:
        pass


def main(name: str, servers: str, prefix: str, folder: str) -> None:
    def tell(what: str) -> None:
        sys.stdout.write(f"{name} {what}\n")
        sys.stdout.flush()

    settings = ClusterSettings(bootstrap_servers=servers, prefix=prefix)
    told, broken = Path(folder) / "told", Path(folder) / f"broken-{name}"
    sleeps = f'echo "{name} -1 0 $$" >> {told}; exec sleep 600'
    ends = f"[ -e {broken} ] && echo kcontrol: no such directory && exit 2"
    session = SessionOptions(poll_ms=100, coordinator=("sh", "-c", f"{ends}; {sleeps}"))
    options = AgentOptions(name, 3, (), Path(folder) / name, 2_000, False, session)
    asyncio.run(serve(settings, options, Sleepers(name, told), tell))


if __name__ == "__main__":
    main(*sys.argv[1:])
