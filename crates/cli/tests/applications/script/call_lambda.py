"""Calls the handler of a directory with the event on each line of stdin, and prints each result or error as JSON."""

import json
import signal
import sys

sys.path.insert(0, sys.argv[1])
from authorizer import handler  # noqa: E402

for line in sys.stdin:
    # Ends the process if the handler hangs.
    signal.alarm(30)
    try:
        result = handler(json.loads(line), None)
    except RuntimeError as error:
        result = {"error": str(error)}
    print(json.dumps(result), flush=True)
