// The file of the active policy, and what reloads changed.

import { call } from "../api.js";
import { confirmed } from "../confirm.js";
import { byId, element, foreign, reconcile, setText } from "../dom.js";
import { date, plural } from "../format.js";

export function startPolicy() {
  const button = byId("reload");
  button.addEventListener("click", async () => {
    if (!(await confirmed("Reload the policy file? Counters continue; an invalid file changes nothing.", "Reload"))) return;
    button.disabled = true;
    setText(byId("reload-problem"), "");
    // The outcome, also a failed one, is in the list of reloads.
    await call("POST", "/api/reload").catch((error) => setText(byId("reload-problem"), error.status === 409 ? "" : error.message));
    button.disabled = false;
    await load();
  });
  return { load };
}

async function load() {
  const policy = await call("GET", "/api/policy");
  byId("reload").hidden = !policy.can_reload;
  showFacts(policy);
  reconcile(byId("reload-list"), policy.reloads, (reload) => `${reload.time}\n${reload.message}`, reloadItem, () => {});
  byId("reloads-empty").hidden = policy.reloads.length > 0;
  showText(policy);
}

function showFacts(policy) {
  const facts = [
    ["File", policy.file ?? "unknown"],
    ["Version", policy.fingerprint],
    ["Loaded", date(policy.loaded_at)],
    ["Rules", plural(policy.rules, "rule")],
  ];
  byId("policy-facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, foreign(value))]));
}

function reloadItem(reload) {
  return element("li", { class: reload.done ? "" : "is-failed" },
    element("p", {}, element("span", { class: "outcome" }, reload.done ? "Reloaded" : "Not reloaded: the previous policy stays active"), element("span", { class: "note" }, ` · ${date(reload.time)}`)),
    foreign(reload.message, "p", "message"));
}

function showText(policy) {
  const isShown = policy.text !== null;
  byId("policy-source").hidden = !isShown;
  byId("policy-missing").hidden = isShown && !policy.text_cut;
  setText(byId("policy-missing"), missing(policy));
  if (!isShown) return;
  setText(byId("policy-text"), policy.text);
  const lines = policy.text.split("\n").length - (policy.text.endsWith("\n") ? 1 : 0);
  setText(byId("policy-lines"), Array.from({ length: lines }, (_, at) => at + 1).join("\n"));
}

function missing(policy) {
  if (policy.text_cut) return "The end of the file is not shown: it is too long.";
  if (policy.text_withheld) return "The text is not shown: it contains credentials of clients in a form that cannot be hidden.";
  return "The program that runs this service does not name its policy file.";
}
