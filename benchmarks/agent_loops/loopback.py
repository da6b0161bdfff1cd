"""An ASGI application on a free port of the loopback, in a child process. Knows no application."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from benchmarks.child import answer_lines


def answer_port(app: Any, other: Callable[[str], str] | None = None) -> None:
    """Serve it until the parent is gone; "port" is answered with its port, any other line by `other`."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        port = str(listener.getsockname()[1])
        answer_lines(lambda line: port if other is None or line == "port" else other(line))
