"""Peers in Java: one source file each, compiled once against jars that a lock lists, which are fetched and checked as the
embedded broker's are."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.environments import cache_directory
from bench.peers.peer import Command, PeerMissingError
from kcontrol.adapters.java import Java, find_java
from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars, read_lock

COMPILE_TIMEOUT_S = 120
JVM = ("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC")
"""The collector that works least: on two cores, with a broker beside, one that works meanwhile takes from what is measured."""


def prepare(source: Path, lock: Path, flags: Sequence[str] = ()) -> Command:
    """The beginning of the command line that runs the source file's class.

    Raises JavaError, ArtifactError, and PeerMissingError for a Java that can't compile.
    """
    java = find_java()
    jars = ensure_jars(artifacts=read_lock(lock.read_text(encoding="utf-8")))
    class_path = os.pathsep.join(str(each) for each in (compiled(source, lock, jars, java), *jars))
    return (str(java.executable), *JVM, *flags, "-cp", class_path, source.stem)


def compiled(source: Path, lock: Path, jars: Sequence[Path], java: Java) -> Path:
    """The directory with the classes of this source, these jars and this version of Java."""
    what = hashlib.sha256(source.read_bytes() + lock.read_bytes() + b"%d" % java.version).hexdigest()
    directory = cache_directory() / f"{source.stem}-{what[:12]}"
    if directory.is_dir():
        return directory
    scratch = directory.with_name(f"{directory.name}.{os.getpid()}")
    scratch.mkdir(parents=True)
    class_path = os.pathsep.join(map(str, jars))
    command = [find_javac(java), "-nowarn", "-cp", class_path, "-d", str(scratch), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile:\n{done.stderr[-2_000:]}")
        if not directory.is_dir():
            scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return directory


def find_javac(java: Java, environ: Mapping[str, str] = os.environ) -> str:
    """The compiler beside this Java, or else on PATH. Raises PeerMissingError."""
    beside = java.executable.resolve().with_name("javac")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("javac", path=environ.get("PATH", ""))
    if found is None:
        raise PeerMissingError(
            f"It needs javac, and there is none beside {java.executable} nor on PATH: install a JDK {java.version}, not "
            "only a runtime."
        )
    return found
