"""What the files of docker/ say, and how kcontrol itself understands the commands in them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import click
import httpx
import yaml

from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.app import make_api, make_metrics_app
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.cli.main import cli
from tests.support.patient_http import patient_limits

SECRET = "0123456789abcdef-secret"
ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
KUBERNETES = DOCKER / "kubernetes"


def read(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@contextmanager
def standing(directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """In that directory, with that environment and nothing else of kcontrol's."""
    before = Path.cwd()
    others = {name: value for name, value in os.environ.items() if not name.startswith("KCONTROL")}
    os.chdir(directory)
    try:
        with patch.dict(os.environ, {**others, **environment}, clear=True):
            yield
    finally:
        os.chdir(before)


def understood(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line of `kcontrol`, as its own parser takes them. Raises what it raises."""
    name, *rest = arguments
    with click.Context(cli) as top:
        command = cli.get_command(top, name)
        assert command is not None, f"there is no command {name}"
        with command.make_context(name, rest, parent=top) as context:
            return dict(context.params)


def serves(command: str, path: str) -> bool:
    """Whether the HTTP server within such a process answers that path."""
    if command != "node":
        return path in make_api(cast(Plane, None)).openapi()["paths"]
    app = make_metrics_app(make_registry(), patient_limits(), AccessToken(SECRET))

    async def ask() -> int:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://node-0:8481"
        ) as client:
            return (await client.get(path, headers={"Authorization": f"Bearer {SECRET}"})).status_code

    return asyncio.run(ask()) == 200
