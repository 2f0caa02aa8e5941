"""A port for the page."""

import socket

from engine.errors import Refused

ADDRESS = "127.0.0.1"
PORTS_TRIED = 100


def free_port(port: int) -> int:
    """The port, or the next one that nobody listens on. Raises Refused."""
    if not 1 <= port <= 65535:
        raise Refused(f"--port {port} is no port; give one from 1 to 65535")
    last = min(port + PORTS_TRIED, 65535)
    for tried in range(port, last + 1):
        try:
            with socket.create_server((ADDRESS, tried)):
                return tried
        except OSError:
            continue
    raise Refused(f"no port from {port} to {last} can be had on this machine; give another")
