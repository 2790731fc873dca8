"""A Flask application whose requests tollgate limits."""

import math
import os
import time

import httpx
from flask import Flask, g, jsonify, request

# What happens while tollgate does not answer: True allows every request, uncounted; False refuses it with 503.
FAIL_OPEN = os.environ.get("TOLLGATE_FAIL_OPEN") == "true"
# tollgate usually answers within a millisecond.
TIMEOUT_SECONDS = float(os.environ.get("TOLLGATE_TIMEOUT_SECONDS", "0.25"))

# One client for the process keeps its connections open; threads may share it. With workers that fork, create
# it in each of them.
tollgate = httpx.Client(
    base_url=os.environ.get("TOLLGATE_URL", "http://127.0.0.1:8080"), timeout=TIMEOUT_SECONDS, trust_env=False
)

app = Flask(__name__)


@app.before_request
def limit():
    try:
        # The address of the connection. Behind a proxy: werkzeug.middleware.proxy_fix.ProxyFix
        question = {
            "ip": request.remote_addr,
            "method": request.method,
            "path": request.path,
            "headers": dict(request.headers),
        }
        response = tollgate.post("/v1/check", json=question)
        # Too many or too large header fields. Never allowed: else they would be a way around the limits.
        if response.status_code in (400, 413):
            return jsonify(error="bad request"), 400
        verdict = response.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return None if FAIL_OPEN else (jsonify(error="unavailable"), 503)
    g.fields = fields(verdict)
    if not verdict["allowed"]:
        status = 403 if verdict["action"] == "deny" else 503 if verdict["source"] == "fallback" else 429
        return jsonify(error="refused", rule=verdict["rule"]), status
    # The place in the queue of a rule.
    time.sleep(verdict.get("delay_ms", 0) / 1000)
    return None


@app.after_request
def add_fields(response):
    response.headers.update(g.get("fields", {}))
    return response


def fields(verdict):
    """The response fields of the rule that decided; none if no rule applies."""
    if verdict["limit"] is None:
        return {}
    result = {
        "RateLimit": f'"{verdict["rule"]}";r={verdict["remaining"]}',
        "X-RateLimit-Limit": str(verdict["limit"]),
        "X-RateLimit-Remaining": str(verdict["remaining"]),
    }
    if verdict["retry_after_ms"] is not None:
        result["Retry-After"] = str(math.ceil(verdict["retry_after_ms"] / 1000))
    return result


@app.route("/", defaults={"path": ""}, methods=["GET", "POST"])
@app.route("/<path:path>", methods=["GET", "POST"])
def hello(path):
    return {"hello": "world"}
