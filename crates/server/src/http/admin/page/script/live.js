// The live stream. EventSource cannot send a token, so the events are read from a fetch.

import { headers, problemOf } from "./api.js";

/** The stream sends once a second: after this silence the connection is taken as cut. */
const SILENCE_MS = 5000;

const RETRY_MS = [500, 1000, 2000, 4000, 8000];

/**
 * Reads the stream, again and again. `onEvent` gets each event by name; `onState` gets live, lost (with the time until
 * the next attempt) or refused (with the reason).
 */
export class LiveStream {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.failures = 0;
    this.retry = undefined;
    this.current = undefined;
    window.addEventListener("online", () => this.restart());
  }

  restart() {
    clearTimeout(this.retry);
    this.current?.abort();
    this.failures = 0;
    this.connect();
  }

  stop() {
    clearTimeout(this.retry);
    this.current?.abort();
    this.current = undefined;
  }

  async connect() {
    const connection = new AbortController();
    this.current = connection;
    try {
      const response = await fetch("/api/live", { headers: headers(), signal: connection.signal, cache: "no-store", credentials: "omit" });
      if (!response.ok) {
        const problem = await problemOf(response);
        if (this.current !== connection) return;
        if (response.status === 401) return this.onState("refused", "Token needed");
        if (response.status === 403) return this.onState("refused", problem.message);
        throw problem;
      }
      await this.read(response.body.getReader(), connection);
      throw new Error("The stream ended");
    } catch (error) {
      if (this.current === connection) this.lose(error);
    }
  }

  async read(reader, connection) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const silence = setTimeout(() => reader.cancel().catch(() => {}), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || this.current !== connection) return;
      text += decoder.decode(value, { stream: true });
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) this.deliver(event);
    }
  }

  deliver(text) {
    const field = (name) => text.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const [name, data] = [field("event"), field("data")];
    if (name === undefined || data === undefined) return;
    this.failures = 0;
    this.onState("live");
    this.onEvent(name, JSON.parse(data));
  }

  lose(error) {
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    this.onState("lost", error.status ? error.message : "");
    this.retry = setTimeout(() => this.connect(), wait);
  }
}
