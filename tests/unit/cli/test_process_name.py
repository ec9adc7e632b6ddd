"""The random name of a process: its own in all its lives, and nobody else's."""

from __future__ import annotations

import subprocess
import sys

from kcontrol.apps.process_name import is_of, new_join_id, process_name
from tests.support.patience import HANG_S

PROGRAM = """
import os, subprocess, sys
from kcontrol.apps.process_name import process_name
from kcontrol.apps.supervisor.anew import begin_anew
print(process_name(), flush=True)
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    begin_anew()
if "CHILD" not in os.environ:
    subprocess.run([sys.executable, *sys.orig_argv[1:]], env={**os.environ, "CHILD": "1"}, check=True)
"""


def test_a_process_keeps_it_when_it_begins_anew_and_what_it_starts_has_another() -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, timeout=HANG_S, check=True
    )
    first, anew, child = process.stdout.split()
    assert first == anew != child
    assert process_name() not in (first, child)


def test_what_it_names_is_known_by_it_and_never_the_same() -> None:
    ids = {new_join_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_of(each, process_name()) for each in ids)
    assert not any(is_of(each, process_name()[:-1]) or is_of(each, "") for each in ids)
