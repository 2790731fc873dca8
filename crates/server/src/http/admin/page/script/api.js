// Calls of the admin API.

import { needToken, token } from "./session.js";

/** Why a call failed: the detail of the service's problem body, or that it was not reached. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function headers() {
  const sent = token();
  return sent ? { Authorization: `Bearer ${sent}` } : {};
}

/** Calls the API and returns its JSON. */
export async function call(method, path, body) {
  let response;
  try {
    const json = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(path, { method, headers: headers(), body: json, cache: "no-store", credentials: "omit" });
  } catch {
    throw new ApiError(0, "The service does not answer.");
  }
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

/** Reads the problem of a refused call, and asks for the token if it is missing or wrong. */
export async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  const message = body.detail ?? `The service answered ${response.status}.`;
  if (response.status === 401) needToken(token() ? message : "");
  return new ApiError(response.status, message);
}

/** The path of a key; an empty key is that of a rule with one counter. */
export const keyPath = (prefix, rule, key) =>
  `/api/${prefix}/${encodeURIComponent(rule)}${key === "" ? "" : `/${encodeURIComponent(key)}`}`;
