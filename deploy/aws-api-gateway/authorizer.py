"""A Lambda authorizer of an HTTP API that asks tollgate about every request. Handler: authorizer.handler"""

import http.client
import json
import os

# What happens while tollgate does not answer: True allows every request, uncounted; False is an error, and the
# client gets 500.
FAIL_OPEN = os.environ.get("TOLLGATE_FAIL_OPEN") == "true"
TIMEOUT_SECONDS = float(os.environ.get("TOLLGATE_TIMEOUT_SECONDS", "0.25"))

# Lambda keeps the environment for further events, one at a time, and so the connection.
connection = http.client.HTTPConnection(
    os.environ.get("TOLLGATE_HOST", "127.0.0.1:8080"), timeout=TIMEOUT_SECONDS
)


def handler(event, context):
    try:
        status, verdict = ask(question(event))
    except (OSError, http.client.HTTPException, ValueError) as error:
        if FAIL_OPEN:
            return {"isAuthorized": True}
        raise RuntimeError("tollgate does not answer") from error
    if status != 200:
        # Too many or too large header fields. Never allowed: else they would be a way around the limits.
        return {"isAuthorized": False}
    if not verdict["allowed"] and verdict["source"] == "fallback":
        raise RuntimeError("tollgate refuses without its store")
    # The integration gets these as $context.authorizer.rule and so on.
    members = {name: verdict[name] for name in ("rule", "limit", "remaining") if verdict[name] is not None}
    return {"isAuthorized": verdict["allowed"], "context": members}


def question(event):
    request = event["requestContext"]["http"]
    return {
        # The address of the connection to API Gateway. No header of a client changes it.
        "ip": request["sourceIp"],
        "method": request["method"],
        "path": event["rawPath"],
        "headers": event.get("headers", {}),
    }


def ask(body):
    # A connection that was idle for long is closed: ask once more on a new one. In the rare case that the
    # service was stopped after it had counted, the request counts twice.
    reused = connection.sock is not None
    try:
        return ask_once(body)
    except (ConnectionError, http.client.RemoteDisconnected):
        connection.close()
        if not reused:
            raise
        return ask_once(body)


def ask_once(body):
    headers = {"Content-Type": "application/json"}
    if "TOLLGATE_ACCESS_TOKEN" in os.environ:
        headers["Authorization"] = f"Bearer {os.environ['TOLLGATE_ACCESS_TOKEN']}"
    try:
        connection.request("POST", "/v1/check", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
    except TimeoutError:
        # Its response may still arrive, and belongs to no other request.
        connection.close()
        raise
    if response.status not in (200, 400, 413):
        raise ValueError(f"tollgate: {response.status}")
    return response.status, json.loads(text)
