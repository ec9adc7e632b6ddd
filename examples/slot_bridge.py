"""Feeds a topic with what is committed in PostgreSQL, and holds the replication slot until a cut of the region has it.

    python -m examples.slot_bridge 'host=... dbname=shop' orders_slot orders end-of-day pg-bridge http://127.0.0.1:8480 BROKERS

A message is a transaction: its changes, in the text of PostgreSQL's `test_decoding`, as a list in JSON; its number is where its
commit lies in the write-ahead log. The slot is made if it is missing. The server keeps all of its log that the slot may need:
watch how far a slot is behind, where a region is not drained for long (`max_slot_wal_keep_size`).
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, LiteralString

import psycopg

from examples.bridging import Bridge

SLOT_TIMEOUT_S = 30.0


class Slot:
    """Committed transactions, until the slot is advanced over them."""

    def __init__(self, database: str, slot: str) -> None:
        self._reading = psycopg.connect(database, autocommit=True)
        self._slot = slot
        there = self._reading.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,))
        if there.fetchone() is None:
            self._reading.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (slot,))

    def after(self, number: int, most: int) -> list[tuple[int, str]]:
        """Peeking takes nothing away; who begins again is shown all since the slot was advanced last."""
        asked = "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL)"
        found, changes = list[tuple[int, str]](), list[str]()
        for lsn, data in self._ask(asked, self._slot):
            if data.startswith("BEGIN"):
                changes = []
            elif not data.startswith("COMMIT"):
                changes.append(data)
            elif changes and int(lsn) > number:
                found.append((int(lsn), json.dumps(changes)))
        return found[:most]

    def acknowledge(self, number: int) -> None:
        """Up to a commit: what follows it is shown again."""
        self._ask("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)", self._slot, number)

    def _ask(self, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """One session at a time may use a slot: who was killed has it for a moment still."""
        deadline_s = time.monotonic() + SLOT_TIMEOUT_S
        while True:
            try:
                return self._reading.execute(query, values).fetchall()
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.1)


def main(database: str, slot: str, topic: str, region: str, member: str, server: str, brokers: str) -> None:
    """Until Ctrl-C."""
    Bridge(Slot(database, slot), topic, brokers, f"bridge.{region}.{member}").run(region, member, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
