"""Serves the ASGI application of a directory on a free port, and prints the port."""

import socket
import sys

import uvicorn

sys.path.insert(0, sys.argv[1])
from app import app  # noqa: E402

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
# Connections wait until the application has started.
listener.listen()
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
