"""Feeds a topic from a queue, whose messages are acknowledged once a cut of the region has them.

    python -m examples.queue_bridge queue.db orders end-of-day mq-bridge http://127.0.0.1:8480 BROKERS

The queue is a table in a file, for the example's sake: `INSERT INTO messages (body) VALUES (...)` puts a message in, and one
that is acknowledged is gone.
"""

from __future__ import annotations

import sqlite3
import sys

from examples.bridging import Bridge


class Queue:
    """Messages by number, until they are acknowledged."""

    def __init__(self, file: str) -> None:
        self._database = sqlite3.connect(file, check_same_thread=False, timeout=30, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS messages (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)"
        )

    def after(self, number: int, most: int) -> list[tuple[int, str]]:
        asked = "SELECT number, body FROM messages WHERE number > ? ORDER BY number LIMIT ?"
        return self._database.execute(asked, (number, most)).fetchall()

    def acknowledge(self, number: int) -> None:
        self._database.execute("DELETE FROM messages WHERE number <= ?", (number,))


def main(file: str, topic: str, region: str, member: str, server: str, brokers: str) -> None:
    """Until Ctrl-C."""
    Bridge(Queue(file), topic, brokers, f"bridge.{region}.{member}").run(region, member, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
