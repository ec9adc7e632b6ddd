"""kopf and lightkube, which are there only where they were asked for."""

from __future__ import annotations

from typing import Any

from kcontrol.errors import ConfigurationError

_MISSING = "kcontrol operator needs {}, which is not installed: pip install 'kcontrol[kubernetes]'"


def load_lightkube() -> Any:
    """The library of the API. Raises ConfigurationError: it is not installed."""
    try:
        import lightkube
        import lightkube.codecs
        import lightkube.generic_resource
        import lightkube.types
    except ImportError as error:
        raise ConfigurationError(_MISSING.format("lightkube")) from error
    return lightkube


def load_kopf() -> Any:
    """The library of watches. Raises ConfigurationError: it is not installed."""
    try:
        import kopf
    except ImportError as error:
        raise ConfigurationError(_MISSING.format("kopf")) from error
    return kopf
