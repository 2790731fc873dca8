// An Express application whose requests tollgate limits.
"use strict";

const { setTimeout: sleep } = require("node:timers/promises");
const express = require("express");

const TOLLGATE = process.env.TOLLGATE_URL ?? "http://127.0.0.1:8080";
// What happens while tollgate does not answer: true allows every request, uncounted; false refuses it with 503.
const FAIL_OPEN = process.env.TOLLGATE_FAIL_OPEN === "true";
// tollgate usually answers within a millisecond.
const TIMEOUT_SECONDS = Number(process.env.TOLLGATE_TIMEOUT_SECONDS ?? 0.25);

const app = express();
app.use(limit);

// Node's fetch keeps connections open.
async function ask(request) {
  const response = await fetch(`${TOLLGATE}/v1/check`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    // The address of the connection. Behind a proxy: app.set("trust proxy", PROXY)
    body: JSON.stringify({
      ip: request.ip,
      method: request.method,
      path: request.originalUrl,
      headers: request.headers,
    }),
    signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1000),
  });
  // The body is read in any case: else the connection could not be used again.
  return { status: response.status, verdict: await response.json() };
}

async function limit(request, response, next) {
  const { status, verdict } = await ask(request).catch(() => ({ status: 0 }));
  // Too many or too large header fields. Never allowed: else they would be a way around the limits.
  if (status === 400 || status === 413) return response.status(400).json({ error: "bad request" });
  if (status !== 200) return FAIL_OPEN ? next() : response.status(503).json({ error: "unavailable" });
  response.set(fields(verdict));
  if (!verdict.allowed) {
    const refusal = verdict.action === "deny" ? 403 : verdict.source === "fallback" ? 503 : 429;
    return response.status(refusal).json({ error: "refused", rule: verdict.rule });
  }
  // The place in the queue of a rule.
  if (verdict.delay_ms) await sleep(verdict.delay_ms);
  next();
}

// The response fields of the rule that decided; none if no rule applies.
function fields(verdict) {
  if (verdict.limit === null) return {};
  const result = {
    RateLimit: `"${verdict.rule}";r=${verdict.remaining}`,
    "X-RateLimit-Limit": String(verdict.limit),
    "X-RateLimit-Remaining": String(verdict.remaining),
  };
  if (verdict.retry_after_ms !== null) result["Retry-After"] = String(Math.ceil(verdict.retry_after_ms / 1000));
  return result;
}

app.use((request, response) => response.json({ hello: "world" }));

module.exports = app;
if (require.main === module) app.listen(8000);
