"""Where this machine wants its Maven artifacts from: a mirror or repository that its owner has configured, if
any.

Three well-known places are honoured, in this order: PySpark's DEFAULT_ARTIFACT_REPOSITORY, the
`[repositories]` of jgo's own settings file, and a mirror of Maven Central in Maven's settings.xml. Otherwise
the resolver's default is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from jgo.config import GlobalSettings

from kcontrol.errors import ConfigurationError

_CENTRAL = "central"


def configured_repositories(environ: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """Repositories by name and URL, or None for the resolver's default.

    Raises ConfigurationError: Maven's settings.xml is not XML.
    """
    if url := environ.get("DEFAULT_ARTIFACT_REPOSITORY"):
        return {"environment": url.rstrip("/")}
    repositories: dict[str, str] = GlobalSettings.load().repositories
    if repositories:
        return {name: url.rstrip("/") for name, url in repositories.items()}
    mirror = _central_mirror(_maven_settings(environ))
    return {"mirror": mirror.rstrip("/")} if mirror else None


def _maven_settings(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / ".m2" / "settings.xml"


def _central_mirror(settings: Path) -> str | None:
    """URL of the first mirror that stands for Maven Central (`mirrorOf` as Maven reads it)."""
    if not settings.is_file():
        return None
    try:
        root = ElementTree.parse(settings).getroot()
    except ElementTree.ParseError as error:
        raise ConfigurationError(
            f"{settings} is not valid XML: {error}. Correct it, or move it away."
        ) from error
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        url = (mirror.findtext("{*}url") or "").strip()
        blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
        if url and not blocked and _stands_for_central(mirror.findtext("{*}mirrorOf") or ""):
            return url
    return None


def _stands_for_central(mirror_of: str) -> bool:
    patterns = [pattern.strip() for pattern in mirror_of.split(",")]
    if f"!{_CENTRAL}" in patterns:
        return False
    return any(pattern in ("*", "external:*", _CENTRAL) for pattern in patterns)
