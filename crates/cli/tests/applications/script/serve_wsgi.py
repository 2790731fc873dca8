"""Serves the WSGI application of a directory on a free port, and prints the port."""

import logging
import sys

from werkzeug.serving import make_server

sys.path.insert(0, sys.argv[1])
from app import app  # noqa: E402

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
