// The figures at the top: decisions, refusals, decision time and the store.

import { columnChart } from "../charts.js";
import { byId, element, setText } from "../dom.js";
import { count, percent, plural, time } from "../format.js";
import { HISTORY_LENGTH } from "../history.js";

const STORE_STATES = { ok: "Healthy", degraded: "Degraded", failing: "Failing" };

export function startNow() {
  const chart = columnChart(["allowed", "refused"]);
  byId("rate-chart").append(chart.svg);
  return (status, history) => {
    showRate(status, history, chart);
    showRefused(history);
    showLatency(status.latency);
    showStore(status.store);
  };
}

function showRate({ decisions, interval_ms }, history, chart) {
  const now = decisions.allowed_per_second + decisions.refused_per_second;
  setText(byId("rate"), interval_ms === null ? "…" : count(now));
  setText(byId("rate-note"), `${plural(decisions.allowed + decisions.refused, "decision")} since the start`);
  const { allowed, refused } = history.all();
  const peak = allowed.reduce((most, value, at) => Math.max(most, value + refused[at]), 0);
  chart.draw([allowed, refused], HISTORY_LENGTH, `Decisions a second in the last minute, at most ${count(peak)}`);
}

function showRefused(history) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const { allowed, refused } = history.all();
  const [passed, stopped] = [sum(allowed), sum(refused)];
  setText(byId("refused"), allowed.length === 0 ? "–" : percent(stopped, passed + stopped));
  const since = allowed.length === HISTORY_LENGTH ? "minute" : plural(allowed.length, "second");
  setText(byId("refused-note"), allowed.length === 0 ? "Not measured yet" : `of the decisions in the last ${since}`);
}

function showLatency({ decisions, p50_at_most_ns, p99_at_most_ns }) {
  const bound = (ns) => (ns === null ? "over 100 ms" : `under ${time(ns)}`);
  const figure = byId("latency");
  if (decisions === 0) {
    setText(figure, "–");
    setText(byId("latency-note"), "No decisions in the last 10 s");
    return;
  }
  const [value, unit] = (p99_at_most_ns === null ? "> 100 ms" : `< ${time(p99_at_most_ns)}`).split(/ (?=\S+$)/);
  figure.replaceChildren(`${value} `, element("span", { class: "unit" }, unit));
  setText(byId("latency-note"), `99 % of the decisions; half take ${bound(p50_at_most_ns)}`);
}

function showStore({ state, summary }) {
  const tile = byId("store");
  if (tile.dataset.state !== state) {
    tile.dataset.state = state;
    byId("announcement").textContent = `Store: ${summary}`;
  }
  setText(byId("store-state"), STORE_STATES[state] ?? state);
  setText(byId("store-summary"), summary);
}
