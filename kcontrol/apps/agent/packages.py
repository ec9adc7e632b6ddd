"""Packages on a host: read when something of them is placed here, unpacked below the agent's folder, and run only as they
were submitted, file for file."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kcontrol.adapters.kafka.logs.cluster_packages import KafkaPackages, SignedPackage
from kcontrol.errors import (
    AccessError,
    ConfigurationError,
    DamagedRecordError,
    KcontrolError,
    NotFoundError,
    RetriableError,
    TopicError,
)
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import CodePackage, is_package_name

if TYPE_CHECKING:
    # Whoever checks no signature does not load the library for them.
    from kcontrol.apps.agent.trust import TrustedKeys

TIMEOUT_S = 60.0
"""For one package to be read."""


class HostPackages:
    """Of one agent. trusted: who has to have signed what is run; None: whoever may write the cluster's topics may submit."""

    def __init__(self, settings: ClusterSettings, folder: Path, trusted: TrustedKeys | None = None) -> None:
        self._settings, self._folder, self._trusted = settings, folder, trusted
        self._known: dict[str, SignedPackage] = {}
        self._reading: dict[str, asyncio.Task[SignedPackage]] = {}

    def package(self, name: str) -> CodePackage | None:
        """What was submitted, by somebody who is trusted; None while it is being read.

        Raises ConfigurationError: there is no such package, it is damaged, or not signed; or there is no topic of packages that
        may be read. RetriableError: it can't be read now, and the next call tries again.
        """
        if not is_package_name(name):
            raise ConfigurationError(f"{name!r} is no package")
        found = self._known.get(name) or self._read(name)
        if found is None:
            return None
        if self._trusted is not None:
            # Whoever signs it now is to be heard when it is placed again.
            self._known.pop(name, None)
            self._trusted.check(name, found.signatures)
        self._known[name] = found
        return found.package

    def entry(self, package: CodePackage) -> Path:
        """The file to run, in a folder in which all is as it was submitted, and nothing else. Raises OSError if it can't be
        made."""
        return self._unpacked(package) / package.manifest.entry

    def keep(self, names: Collection[str]) -> None:
        """Forget all others, here and on the disk: no job runs them any more."""
        for name in [name for name in self._known if name not in names]:
            del self._known[name]
        for folder in self._folder.glob("*") if self._folder.is_dir() else ():
            if folder.name not in names:
                _remove(folder)

    def _read(self, name: str) -> SignedPackage | None:
        reading = self._reading.get(name)
        if reading is None:
            self._reading[name] = asyncio.create_task(self._from_kafka(name))
            return None
        if not reading.done():
            return None
        del self._reading[name]
        try:
            return reading.result()
        except (NotFoundError, DamagedRecordError, TopicError, AccessError) as error:
            raise ConfigurationError(str(error)) from error
        except (KcontrolError, TimeoutError) as error:
            raise RetriableError(f"package {name} can't be read now: {str(error) or 'no answer'}") from error

    async def _from_kafka(self, name: str) -> SignedPackage:
        packages = KafkaPackages(self._settings)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await packages.read_signed(name)
        finally:
            await packages.close()

    def _unpacked(self, package: CodePackage) -> Path:
        """Its folder, in which there is nothing else, and all of it."""
        folder = self._folder / package.name
        if _is_as_submitted(folder, package):
            return folder
        fresh = folder.with_suffix(".new")
        _remove(fresh)
        try:
            for path, content in package.contents.items():
                file = fresh / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(0o444)
            _remove(folder)
            fresh.rename(folder)
        except OSError:
            _remove(fresh)
            raise
        return folder


def _remove(path: Path) -> None:
    """Whatever it is, as far as that can be done; of a link, what it leads to stays."""
    with suppress(OSError):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_as_submitted(folder: Path, package: CodePackage) -> bool:
    """All of it, and nothing else: a folder that was not submitted, or a link to one, would be imported as well."""
    wanted = {file.path: file.sha256 for file in package.manifest.files}
    found: dict[str, str] = {}
    try:
        for where, folders, names in os.walk(folder, onerror=_raise):
            inside = [Path(where) / name for name in (*folders, *names)]
            for path in (Path(where), *inside):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode):
                    found[path.relative_to(folder).as_posix()] = sha256(path.read_bytes()).hexdigest()
                elif not stat.S_ISDIR(mode):
                    return False
            if not inside:
                return False
    except OSError:
        return False
    return found == wanted


def _raise(error: OSError) -> None:
    raise error
