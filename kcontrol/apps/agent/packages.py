"""Packages on a host: read when something of them is placed here, unpacked below the agent's folder, and run only as they
were submitted, file for file."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from kcontrol.adapters.kafka.logs.cluster_packages import KafkaPackages
from kcontrol.errors import ConfigurationError, DamagedRecordError, KcontrolError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import CodePackage, is_package_name

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 60.0
"""For one package to be read."""


class HostPackages:
    """Of one agent."""

    def __init__(self, settings: ClusterSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._known: dict[str, CodePackage] = {}
        self._reading: dict[str, asyncio.Task[CodePackage]] = {}

    def entry(self, name: str) -> Path | None:
        """The file to run, as it was submitted; None while it is being read.

        Raises ConfigurationError: there is no such package, or it is damaged.
        """
        if not is_package_name(name):
            raise ConfigurationError(f"{name!r} is no package")
        package = self._known.get(name) or self._read(name)
        if package is None:
            return None
        self._known[name] = package
        return self._unpacked(package) / package.manifest.entry

    def keep(self, names: Collection[str]) -> None:
        """Forget all others, here and on the disk: no job runs them any more."""
        for name in [name for name in self._known if name not in names]:
            del self._known[name]
        for folder in self._folder.glob("*") if self._folder.is_dir() else ():
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)

    def _read(self, name: str) -> CodePackage | None:
        reading = self._reading.get(name)
        if reading is None:
            self._reading[name] = asyncio.create_task(self._from_kafka(name))
            return None
        if not reading.done():
            return None
        del self._reading[name]
        try:
            return reading.result()
        except (NotFoundError, DamagedRecordError) as error:
            raise ConfigurationError(str(error)) from error
        except (KcontrolError, TimeoutError) as error:
            _log.info("package %s can't be read now: %s", name, error or "no answer")
            return None

    async def _from_kafka(self, name: str) -> CodePackage:
        packages = KafkaPackages(self._settings)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await packages.read(name)
        finally:
            await packages.close()

    def _unpacked(self, package: CodePackage) -> Path:
        """Its folder, in which there is nothing else, and all of it."""
        folder = self._folder / package.name
        if _is_as_submitted(folder, package):
            return folder
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        for path, content in package.contents.items():
            file = fresh / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o444)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        return folder


def _is_as_submitted(folder: Path, package: CodePackage) -> bool:
    wanted = {file.path: file for file in package.manifest.files}
    found: dict[str, str] = {}
    with suppress(OSError):
        for where, _, names in os.walk(folder):
            for name in names:
                file = Path(where) / name
                if file.is_symlink():
                    return False
                found[file.relative_to(folder).as_posix()] = sha256(file.read_bytes()).hexdigest()
    return found == {path: file.sha256 for path, file in wanted.items()}
