"""What Spark starts instead of Python, where there is a fork server: hands its arguments, environment and
descriptors to it, and stays as the process that Spark watches and ends.

Run as a file by a Python without site packages, and imports only what is built in: a Python that starts whole
takes 20 ms, and PySpark in it up to a second. Whatever can't be handed over is run here, as Spark meant it.
"""

import os
import sys

# `socket` would import much more.
from _socket import AF_UNIX, SCM_RIGHTS, SO_RCVTIMEO, SOCK_STREAM, SOL_SOCKET, socket
from marshal import dumps

ADDRESS = "KCONTROL_FORK_SERVER"
"""The environment variable with the path of the server's socket."""
TASKS = "tasks"
"""In the same directory: the socket of the server for what runs tasks."""
DAEMON = "kcontrol.adapters.spark.session.warm_daemon"
"""What forks the processes that run them."""
HERE, FORKED, REFUSED = b"h", b"f", b"r"
"""What the server says: that it listens to this one, and what became of the request."""
STATUS_BYTES = 4
LENGTH_BYTES = 8
WAIT_S = 5
"""For a word of the server. Spark gives a process ten seconds to answer."""
_TIMEVAL = WAIT_S.to_bytes(8, sys.byteorder) + bytes(8)


def _handed_over(arguments: "list[str]") -> "socket | None":
    """The connection to a server that has forked a process for these arguments; None if there is none."""
    address = os.environ.get(ADDRESS)
    if not address or arguments[:1] != ["-m"] or len(arguments) < 2:
        return None
    if arguments[1] == DAEMON:
        address = f"{address.rpartition('/')[0]}/{TASKS}"
    server = socket(AF_UNIX, SOCK_STREAM)
    try:
        server.connect(address)
        server.setsockopt(SOL_SOCKET, SO_RCVTIMEO, _TIMEVAL)
        if server.recv(1) != HERE:
            return None
        environment = dict(os.environb)
        request = dumps((arguments[1:], environment, os.getcwd()))  # noqa: PTH109 - pathlib is not built in
        descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
        server.sendmsg([len(request).to_bytes(LENGTH_BYTES, "big")], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
        _send(server, request)
        if server.recv(1) != FORKED:
            return None
    except OSError:
        return None
    return server


def _send(server: socket, data: bytes) -> None:
    while data:
        data = data[server.send(data) :]


def _await_end(server: socket) -> int:
    """Exit code of the process that was forked. If this one ends first, the server ends that one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)  # Who waits for the end of a pipe must not wait for this process.
    server.setsockopt(SOL_SOCKET, SO_RCVTIMEO, bytes(16))
    status = b""
    while len(status) < STATUS_BYTES:
        more = server.recv(STATUS_BYTES - len(status))
        if not more:
            return 1
        status += more
    return int.from_bytes(status, "big")


def main() -> None:
    """Never returns."""
    arguments = sys.argv[1:]
    server = _handed_over(arguments)
    if server is None:
        os.execv(sys.executable, [sys.executable, *arguments])
    os._exit(_await_end(server))


if __name__ == "__main__":
    main()
