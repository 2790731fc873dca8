// The rules: what each promises, and what it does now.

import { call } from "../api.js";
import { columnChart } from "../charts.js";
import { byId, element, foreign, reconcile, setText } from "../dom.js";
import { count } from "../format.js";
import { HISTORY_LENGTH } from "../history.js";

/** Starts the panel. The result shows a status, and `load` reads the rules of a new policy. */
export function startRules() {
  const panel = { rules: [], charts: new WeakMap(), last: undefined };
  byId("rule-filter").addEventListener("input", () => show(panel));
  return {
    all: () => panel.rules,
    load: async () => {
      panel.rules = (await call("GET", "/api/rules")).rules;
      show(panel);
    },
    show: (status, history) => {
      panel.last = { byName: new Map(status.rules.map((rule) => [rule.rule, rule])), history };
      show(panel);
    },
  };
}

function show(panel) {
  const filter = byId("rule-filter").value.trim().toLowerCase();
  const shown = panel.rules.filter((rule) => `${rule.rule} ${rule.key.join(" ")} ${rule.text}`.toLowerCase().includes(filter));
  byId("rule-filter").parentElement.hidden = panel.rules.length < 8 && filter === "";
  reconcile(byId("rule-list"), shown, identityOf, (rule) => card(rule, panel), (node, rule) => update(node, rule, panel));
  const empty = byId("rules-empty");
  empty.hidden = shown.length > 0;
  if (panel.rules.length > 0) setText(empty, "No rule contains this text.");
  else if (panel.last !== undefined) setText(empty, "The policy has no rules: every request is allowed.");
}

/** A rule with another promise is another card. */
const identityOf = (rule) => `${rule.rule}\n${rule.text}`;

function card(rule, panel) {
  const chart = columnChart(["allowed", "shadowed", "refused"]);
  const figure = (name, kind) => element("div", { class: kind }, element("dt", {}, name), element("dd", {}, "–"));
  const rates = element("dl", { class: "rates" }, figure("allowed/s", ""), figure(rule.shadow ? "would refuse/s" : "refused/s", ""), figure("headroom", "headroom"));
  rates.lastChild.append(element("dd", { class: "meter" }, element("span")));
  const node = element("li", { class: "card rule" },
    element("div", {}, element("h3", { class: "rule-name" }, foreign(rule.rule), ...badges(rule)), limits(rule), promise(rule)),
    element("div", { class: "chart-box" }, chart.svg, element("span", { class: "peak" })),
    rates);
  panel.charts.set(node, chart);
  return node;
}

function badges(rule) {
  const badge = (text, kind = "") => element("span", { class: `badge ${kind}`.trim() }, text);
  const found = [];
  if (rule.shadow) found.push(badge("shadow: never refuses", "shadow"));
  if (rule.deny) found.push(badge("denies", "deny"));
  if (rule.consistency && rule.consistency !== "exact") found.push(badge(rule.consistency));
  if (rule.budget) found.push(badge(`budget ${rule.budget}`));
  return found;
}

function limits(rule) {
  const line = element("p", {});
  const key = rule.key.length === 0 ? "all clients together" : `each ${rule.key.join(" and ")}`;
  if (rule.deny) {
    line.append(element("span", { class: "limit" }, "Refuses every request that it matches"));
    return line;
  }
  const texts = rule.grants.flatMap((grant) => {
    const limit = grant.unlimited ? "unlimited" : grant.limits.map((one) => one.limit).join(" and ");
    const whose = grant.whose.map((one) => one.name ?? one.patterns?.join(", ")).filter(Boolean).join(", ");
    return [whose ? `${whose}: ${limit}` : limit];
  });
  const algorithms = [...new Set(rule.grants.flatMap((grant) => grant.limits.map((one) => one.algorithm)))];
  line.append(element("span", { class: "limit foreign" }, texts.join(" · ")), element("span", { class: "note" }, ` for ${key}${algorithms.length ? ` · ${algorithms.join(", ")}` : ""}`));
  return line;
}

/** The promise in the words of `tollgate validate`; its first line repeats the name. */
function promise(rule) {
  const lines = rule.text.split("\n").map((line) => line.trim());
  return element("details", { class: "promise" },
    element("summary", { class: "foreign" }, promiseSummary(rule, lines)),
    element("pre", { class: "foreign" }, lines.join("\n")));
}

/** The bounds, one for each tier or key that has its own. */
function promiseSummary(rule, lines) {
  if (rule.shadow) return "Promise: refuses nothing; counts and reports";
  if (rule.deny) return `Promise: ${lines.slice(1).join("; ") || "denies every request"}`;
  let whose = "";
  const bounds = [];
  for (const line of lines.slice(1)) {
    if (line.startsWith("at most ")) bounds.push(whose + line);
    else if (/^(tiers?|keys?|others?) .*?: /.test(line)) whose = `${line.slice(0, line.indexOf(": "))}: `;
  }
  return `Promise: ${bounds.join(" · ") || lines[1] || lines[0]}`;
}

function update(node, rule, panel) {
  const figures = panel.last?.byName.get(rule.rule);
  if (figures === undefined) return;
  const series = panel.last.history.rule(rule.rule);
  const passed = series.allowed.map((value, at) => Math.max(0, value - (series.would_refuse[at] ?? 0)));
  const peak = series.allowed.reduce((most, value, at) => Math.max(most, value + series.refused[at]), 0);
  const label = `${rule.rule}: ${count(figures.allowed_per_second)} allowed and ${count(figures.refused_per_second)} refused a second, at most ${count(peak)} together in the last minute`;
  panel.charts.get(node).draw([passed, series.would_refuse, series.refused], HISTORY_LENGTH, label);
  setText(node.querySelector(".peak"), peak === 0 ? "no requests in the last minute" : `peak ${count(peak)}/s`);
  showRates(node.querySelectorAll(".rates > div"), rule, figures);
}

function showRates([allowed, refused, headroom], rule, figures) {
  const second = rule.shadow ? figures.would_refuse_per_second : figures.refused_per_second;
  setText(allowed.lastChild, count(figures.allowed_per_second));
  setText(refused.lastChild, count(second));
  refused.className = second > 0 ? (rule.shadow ? "is-shadow" : "is-refused") : "";
  const left = figures.headroom_percent;
  const [, value, meter] = headroom.children;
  setText(value, left === null ? "–" : `${left} %`);
  headroom.title = left === null ? "No request in the last 10 s" : `After a request, ${left} % of the limit is left on average; in ${figures.near_limit_percent} % of the requests it is a tenth or less`;
  meter.hidden = left === null;
  meter.classList.toggle("is-low", left !== null && left <= 10);
  meter.firstChild.style.setProperty("width", `${left ?? 0}%`);
}
