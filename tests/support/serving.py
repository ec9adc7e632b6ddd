"""A real `kcontrol serve`, and a client of it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until


def serving(directory: Path, *options: str) -> KcontrolProcess:
    """`kcontrol serve` on a port that is free, with the cluster of the directory."""
    return KcontrolProcess(
        "serve", "--port", "0", "--json", *options, log=directory / f"serve{len(options)}.log", cwd=directory
    )


def client_of(process: KcontrolProcess) -> httpx.Client:
    """Of a server, once it is ready."""
    process.says('"serve"')
    client = httpx.Client(base_url=json.loads(process.text().splitlines()[0])["serve"], timeout=HANG_S)

    def is_ready() -> bool:
        try:
            return client.get("/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    until(is_ready, "the server is ready", 240, process.text)
    return client
