// Explains what the rules do with a described request.

import { call } from "../api.js";
import { byId, element, foreign } from "../dom.js";
import { count, span } from "../format.js";

export function startExplain() {
  byId("why-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const result = byId("why-result");
    try {
      result.replaceChildren(...answer(await call("POST", "/api/explain", description())));
    } catch (error) {
      result.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  });
}

function description() {
  const value = (id) => byId(id).value.trim();
  const described = { method: value("why-method").toUpperCase() || "GET", path: value("why-path") || "/" };
  if (value("why-ip")) described.ip = value("why-ip");
  if (value("why-user")) described.identities = { user: value("why-user") };
  const headers = {};
  for (const line of value("why-headers").split("\n").filter((line) => line.trim() !== "")) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`A header is a name, a colon and a value, unlike “${line}”.`);
    const name = line.slice(0, colon).trim();
    headers[name] = [...(headers[name] ?? []), line.slice(colon + 1).trim()];
  }
  if (Object.keys(headers).length > 0) described.headers = headers;
  return described;
}

function answer({ explanation, now }) {
  const states = new Map(now.rules.map((state) => [state.rule, state]));
  const isWarned = now.action === "warn";
  return [verdict(explanation, now), identities(explanation), rules(explanation, states, isWarned)].filter(Boolean);
}

function verdict(explanation, now) {
  const by = explanation.decided_by ? [" Decided by ", foreign(explanation.decided_by), "."] : now.rule ? [" ", foreign(now.rule), " decides."] : [];
  const passes = now.action === "warn" ? "This request would pass now, with a warning." : now.delay_ms ? `This request would pass after ${span(now.delay_ms)}.` : "This request would pass now.";
  const words = now.allowed ? passes : `This request would be refused now${now.retry_after_ms === null ? "" : `, and pass in ${span(now.retry_after_ms)}`}.`;
  return element("p", { class: now.allowed ? "verdict" : "verdict is-refused" }, element("span", {}, words, ...by));
}

function identities({ client_ip, path, tier, identities }) {
  const pairs = Object.entries({ ...identities });
  const add = (name, value) => value !== null && identities[name] === undefined && pairs.push([name, value]);
  add("client_ip", client_ip);
  add("path", path);
  add("tier", tier);
  if (pairs.length === 0) return null;
  return element("div", {}, element("h3", {}, "What the service sees"),
    element("ul", { class: "identities" }, ...pairs.map(([name, value]) => element("li", {}, element("b", {}, name), foreign(value)))));
}

function rules({ rules, access }, states, isWarned) {
  if (rules.length === 0) return element("p", { class: "note" }, access === "rules" ? "The policy has no rules." : "No rule is asked: a list decides before them.");
  const applying = rules.filter((rule) => rule.applies);
  const others = rules.filter((rule) => !rule.applies);
  return element("div", {}, element("h3", {}, `${applying.length} of ${rules.length} rules apply`),
    element("ul", { class: "explained" }, ...[...applying, ...others].map((rule) => ruleItem(rule, states.get(rule.rule), isWarned))));
}

function ruleItem(rule, state, isWarned) {
  if (!rule.applies) {
    return element("li", { class: "is-out" }, mark("–", "does not apply"), foreign(rule.rule, "span", "name"), foreign(rule.reason, "p", "detail"));
  }
  const isRefusing = state?.allowed === false;
  return element("li", { class: isRefusing ? "is-refusing" : "" },
    isRefusing ? (isWarned || rule.shadow ? mark("!", "above its limit") : mark("✕", "refuses")) : mark("✓", "allows"),
    element("span", {}, foreign(rule.rule, "span", "name"), rule.shadow ? element("span", { class: "badge shadow" }, "shadow") : ""),
    element("p", { class: "detail" }, ...detail(rule)),
    ...remaining(state).map((line) => element("p", { class: "detail" }, line)));
}

const mark = (sign, words) => element("span", { class: "mark" }, element("span", { "aria-hidden": "true" }, sign), element("span", { class: "hidden" }, words));

function detail(rule) {
  if (rule.denies) return ["Denies the request, and charges nothing."];
  const key = rule.key === "" ? ["One counter for all clients"] : ["Key ", foreign(rule.key, "bdi", "mono")];
  const more = (rule.more_keys ?? []).flatMap((other) => [" and ", foreign(other, "bdi", "mono")]);
  const limit = rule.unlimited ? "unlimited" : rule.limits.map((one) => `${one.limit} (${one.algorithm})`).join(" and ");
  const by = rule.granted_by === "rule" ? [] : [`, by ${rule.granted_by} `, foreign(rule.grant_name ?? "")];
  return [...key, ...more, ` · ${limit}`, ...by, rule.cost === 1 ? "" : ` · cost ${count(rule.cost)}`];
}

function remaining(state) {
  if (!state || state.limit === null || state.limit === undefined) return [];
  const retry = state.retry_after_ms ? `, again in ${span(state.retry_after_ms)}` : "";
  return [`${count(state.remaining)} of ${count(state.limit)} left now${retry}`];
}
