"""Libraries that pip can install from a folder."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile


def library(folder: Path, name: str, version: str, code: str) -> Path:
    """A wheel with one module."""
    info = f"{name}-{version}.dist-info"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(file, "w") as wheel:
        wheel.writestr(f"{name}.py", code)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return file
