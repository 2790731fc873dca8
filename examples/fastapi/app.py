"""A FastAPI application whose requests tollgate limits."""

import asyncio
import math
import os

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

# What happens while tollgate does not answer: True allows every request, uncounted; False refuses it with 503.
FAIL_OPEN = os.environ.get("TOLLGATE_FAIL_OPEN") == "true"
# tollgate usually answers within a millisecond.
TIMEOUT_SECONDS = float(os.environ.get("TOLLGATE_TIMEOUT_SECONDS", "0.25"))

# One client for the process keeps its connections open.
tollgate = httpx.AsyncClient(
    base_url=os.environ.get("TOLLGATE_URL", "http://127.0.0.1:8080"), timeout=TIMEOUT_SECONDS, trust_env=False
)

app = FastAPI()


@app.middleware("http")
async def limit(request: Request, call_next):
    try:
        # The address of the connection. Behind a proxy: uvicorn --proxy-headers --forwarded-allow-ips=PROXY
        question = {
            "ip": request.client.host,
            "method": request.method,
            "path": request.scope["raw_path"].decode("latin-1"),
            "headers": dict(request.headers),
        }
        response = await tollgate.post("/v1/check", json=question)
        # Too many or too large header fields. Never allowed: else they would be a way around the limits.
        if response.status_code in (400, 413):
            return JSONResponse({"error": "bad request"}, 400)
        verdict = response.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return await call_next(request) if FAIL_OPEN else JSONResponse({"error": "unavailable"}, 503)
    if not verdict["allowed"]:
        status = 403 if verdict["action"] == "deny" else 503 if verdict["source"] == "fallback" else 429
        return JSONResponse({"error": "refused", "rule": verdict["rule"]}, status, fields(verdict))
    # The place in the queue of a rule.
    await asyncio.sleep(verdict.get("delay_ms", 0) / 1000)
    response = await call_next(request)
    response.headers.update(fields(verdict))
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


@app.api_route("/{path:path}", methods=["GET", "POST"])
async def hello():
    return {"hello": "world"}
