"""What a step's records depend on besides its input and the code of its queries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the programs of one node's driver. '' where something is not installed."""

    machine: str
    """Architecture of the processor, as `uname -m` says it."""
    kcontrol: str
    python: str
    spark: str
    java: str
    """Version and vendor of the JVM."""
    pyarrow: str
    pandas: str
    numpy: str
    protobuf: str
