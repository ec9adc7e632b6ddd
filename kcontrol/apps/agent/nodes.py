"""What an agent runs for a unit: a file that is on the host already, below the one folder that its operator has named; and,
only where its operator allows that, a package that was submitted.

So whoever may write the cluster's log can choose among these files, and runs nothing else unless it is allowed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from kcontrol.apps.agent.environments import HostEnvironments
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.placements import placement_text
from kcontrol.apps.agent.requirements import pinned
from kcontrol.core.cluster.model import ClusterJob, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError
from kcontrol.wire.packages import PACKAGE, CodePackage

FILE = "file:"
"""What the package of a job begins with, whose code is a file on the hosts."""
PACKAGES_TAG = "packages"
"""What agents have that run packages, and what jobs with their code ask for."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")


def check_agent_name(what: str, name: str) -> str:
    """Return the name of an agent or tag. Raises ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} {name!r} is not allowed: use 1 to 63 letters, digits, '.', '_' and '-', beginning with one of the "
            "first two"
        )
    return name


def check_file(name: str) -> str:
    """Return a path below the agents' folder as it is submitted. Raises ConfigurationError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ConfigurationError(
            f"{name!r} is not a path below the folder that agents run files from: give it relative to that one"
        )
    return str(path)


class NodeCommands:
    """The commands of nodes and of the coordinator on this host. files: None: none are run. packages: None: none are."""

    def __init__(
        self,
        files: Path | None,
        bootstrap_servers: str,
        work_dir: Path,
        packages: HostPackages | None = None,
        environments: HostEnvironments | None = None,
    ) -> None:
        """environments: for packages that require libraries; without, these are refused."""
        self._files = None if files is None else files.resolve()
        self._packages, self._environments = packages, environments
        self._servers = bootstrap_servers
        self._work_dir = work_dir

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str] | None:
        """None while the code is on its way. Raises ConfigurationError: it is not there, or may not be run here.
        RetriableError: it can't be read now."""
        if job.package.startswith(PACKAGE):
            return self._packaged(job, unit, placement)
        return self._node(self._file(job.package), job, unit, placement)

    def keep(self, packages: Collection[str]) -> None:
        """No other packages are run any more."""
        if self._packages is not None:
            self._packages.keep({one.removeprefix(PACKAGE) for one in packages})

    def _node(
        self,
        file: Path,
        job: ClusterJob,
        unit: Unit,
        placement: AgentPlacement,
        python: str = sys.executable,
    ) -> Sequence[str]:
        # While it is given another number of nodes, only its pipeline's log knows how many it has.
        waits = ("--new",) if job.kept else ()
        number = unit[2]
        if job.stands_by(unit[1]):
            number, waits = 0, ("--standby",)
        return self._kcontrol(
            *(python, "node", str(file), "--node", str(number), "--nodes", str(job.nodes), *waits),
            *("--work-dir", str(self._work_dir), "--placement", placement_text(placement)),
        )

    def _file(self, package: str) -> Path:
        if self._files is None:
            raise ConfigurationError(
                f"this agent runs packages only, not {package!r}: start it with --files FOLDER"
            )
        file = (self._files / check_file(package.removeprefix(FILE))).resolve()
        if not package.startswith(FILE) or not file.is_relative_to(self._files):
            raise ConfigurationError(f"this agent runs files below {self._files} only, not {package!r}")
        if not file.is_file():
            raise ConfigurationError(f"there is no {file} on this host: put it there, as on every host")
        return file

    def _packaged(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str] | None:
        if self._packages is None:
            raise ConfigurationError(
                "this agent runs no packages: start it with --packages, if whoever may write the cluster's topics may run "
                "code here"
            )
        package = self._packages.package(job.package.removeprefix(PACKAGE))
        python = None if package is None else self._interpreter(package)
        if package is None or python is None:
            return None
        file = self._packages.entry(package)
        # Spark's workers import what lies beside the file by this, and nothing is put among what was submitted.
        path = os.pathsep.join(filter(None, (str(file.parent), os.environ.get("PYTHONPATH"))))
        return (
            "env",
            f"PYTHONPATH={path}",
            "PYTHONDONTWRITEBYTECODE=1",
            *((f"PYSPARK_PYTHON={python}",) if package.requirements else ()),
            *self._node(file, job, unit, placement, python),
        )

    def _interpreter(self, package: CodePackage) -> str | None:
        """That which has what the package requires; None while it is being made."""
        libraries = pinned(package.requirements, f"{package.manifest.requirements} of package {package.name}")
        if not libraries:
            return sys.executable
        if self._environments is None:
            raise ConfigurationError(
                f"package {package.name} requires libraries, and this agent makes no environments"
            )
        python = self._environments.interpreter(libraries)
        return None if python is None else str(python)

    def coordinator(self, agent: str) -> Sequence[str]:
        return self._kcontrol(sys.executable, "coordinator", "--instance", agent)

    def _kcontrol(self, python: str, *arguments: str) -> Sequence[str]:
        return (python, "-m", "kcontrol.cli", *arguments, "--bootstrap-servers", self._servers)
