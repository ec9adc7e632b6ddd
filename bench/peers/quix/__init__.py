"""Quix Streams in an environment of its own. A process of it works on one core, so there are as many as cores, in one
group."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.environments import made_of
from bench.peers.peer import Command, Commands, Job, Peer, PeerMissingError, missing_packages, options_of

HERE = Path(__file__).parent
APP, LOCK = HERE / "quix_app.py", HERE / "requirements.lock"


def prepare() -> Commands:
    try:
        python = made_of(LOCK, "quix") / "bin" / "python"
    except subprocess.SubprocessError as error:
        raise PeerMissingError(missing_packages(LOCK, error)) from error

    def commands(job: Job) -> Sequence[Command]:
        alone = [replace(job, home=job.home / f"{number}") for number in range(job.cores)]
        return [
            (str(python), str(APP), *(f"--{name}={value}" for name, value in options_of(each).items()))
            for each in alone
        ]

    return commands


PEER = Peer("quix", "Quix Streams 3.28.1, two processes", prepare, is_slow=True)
