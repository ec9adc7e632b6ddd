"""What a package requires beside its own files: libraries, each in one version.

Only names and versions are understood. Where libraries come from is what a host's own pip is told by its operator, so no
address and no option of pip travels with a package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from kcontrol.errors import ConfigurationError

MAX_REQUIREMENTS = 1_000
MAX_REQUIREMENTS_BYTES = 1 << 20
_HASH = re.compile(r"\s--hash=(sha(?:256|384|512):[0-9a-f]{64,128})(?=\s|$)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_CONTINUED = re.compile(r"\\\r?\n")


@dataclass(frozen=True, slots=True)
class PinnedLibrary:
    """One line. hashes: those of the files that may be taken, any if there are none."""

    requirement: str
    hashes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """As pip reads it."""
        return " ".join((self.requirement, *(f"--hash={one}" for one in self.hashes)))


def pinned(content: bytes, where: str) -> tuple[PinnedLibrary, ...]:
    """What a file of requirements asks for, in the order of names. where: what it is called, for the message.

    Raises ConfigurationError for anything but `name==version`, with extras, a marker and hashes at most.
    """
    if len(content) > MAX_REQUIREMENTS_BYTES:
        raise ConfigurationError(f"{where} has {len(content)} bytes, and may have {MAX_REQUIREMENTS_BYTES}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{where} is no text: {error}") from error
    found = []
    for number, line in enumerate(_CONTINUED.sub(" ", text).splitlines(), start=1):
        wanted = _COMMENT.sub("", line).strip()
        if wanted:
            found.append(_pinned(wanted, f"{where}, requirement {number}"))
    if len(found) > MAX_REQUIREMENTS:
        raise ConfigurationError(f"{where} has {len(found)} requirements, and may have {MAX_REQUIREMENTS}")
    return tuple(sorted(found, key=lambda one: one.line))


def is_version(text: str) -> bool:
    """Whether pip understands it."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _pinned(line: str, where: str) -> PinnedLibrary:
    hashes = tuple(_HASH.findall(line))
    wanted = _HASH.sub("", line).strip()
    try:
        requirement = Requirement(wanted)
    except InvalidRequirement as error:
        raise ConfigurationError(
            f"{where}: {wanted!r} is no `name==version`; options of pip, paths and addresses are the hosts' own business"
        ) from error
    versions = list(requirement.specifier)
    exact = len(versions) == 1 and versions[0].operator == "==" and not versions[0].version.endswith(".*")
    if requirement.url is not None or not exact:
        raise ConfigurationError(
            f"{where}: {wanted!r} has to be `{requirement.name}==VERSION`, so that all hosts, and replays, have the same; "
            "`pip freeze` says which there is here"
        )
    return PinnedLibrary(str(requirement), hashes)
