"""Every bound of the checkpoint store, in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kcontrol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What saving and restoring may take.

    Memory is at most `chunk_bytes` for each of `parallel_files`, and on S3 the 10 MB of
    one part of an upload for each.
    """

    chunk_bytes: int = 1 << 20
    """Read and written at a time."""
    parallel_files: int = 4
    """Copied at a time."""
    manifest_bytes: int = 64 << 20
    """Largest manifest that is read: about 200,000 files."""
    attempts: int = 3
    """Tries at one operation of a location that is not on this machine, each with `request_attempts`
    requests."""
    first_wait_ms: int = 200
    """Before the second try; doubled before each further one."""
    longest_wait_ms: int = 5_000
    request_attempts: int = 3
    """Tries of the S3 client at one request."""
    connect_timeout_ms: int = 5_000
    request_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        """Raises ConfigurationError: a limit is not positive."""
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ConfigurationError(
                    f"checkpoint store: {field.name} is {getattr(self, field.name)}; it must be 1 or more"
                )
