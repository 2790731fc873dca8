// The clients that are refused most, and the overrides of keys.

import { call, keyPath } from "../api.js";
import { byId, element, foreign, reconcile, setText } from "../dom.js";
import { ago, count, date } from "../format.js";
import { confirmed } from "../confirm.js";

/** Client IDs that stand for a key in full have fewer bytes than this; longer ones are cut. */
const MAX_ID_LENGTH = 191;

const NOTES = {
  hashed: "Clients appear as keyed hashes. Inspect one by its key, and the page confirms that it is the same client.",
  truncated: "Clients appear truncated: several may share a line.",
  plain: "Clients appear under their keys, as --log-identities plain asks for.",
};

export function startClients(dialog) {
  const panel = { identities: "hashed", shadow: new Set(), counting: new Set(), dialog };
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.open({ rule: byId("key-rule").value, key: byId("key-input").value.trim() });
  });
  return {
    setRules: (rules) => {
      panel.shadow = new Set(rules.filter((rule) => rule.shadow).map((rule) => rule.rule));
      const counting = rules.filter((rule) => !rule.deny).map((rule) => rule.rule);
      panel.counting = new Set(counting);
      reconcile(byId("key-rule"), counting, (name) => name, (name) => element("option", { value: name }, name), () => {});
    },
    show: (status) => {
      panel.identities = status.identities;
      setText(byId("clients-note"), NOTES[status.identities] ?? "");
      reconcile(byId("client-list"), status.clients, (client) => `${client.rule}\n${client.client}`, (client) => row(client, panel), (node, client) => update(node, client, status.time, panel));
      byId("clients-empty").hidden = status.clients.length > 0;
      byId("client-table").hidden = status.clients.length === 0;
    },
    loadOverrides: () => loadOverrides(panel),
  };
}

function row(client, panel) {
  const inspect = element("button", { type: "button", "aria-label": `Inspect ${client.client} under ${client.rule}` }, "Inspect");
  inspect.addEventListener("click", () => panel.dialog.open({ rule: client.rule, client: client.client, key: knownKey(client.client, panel.identities) }));
  return element("tr", {},
    element("td", { class: "client" }, foreign(client.client === "*" ? "all clients" : client.client)),
    element("td", {}, foreign(client.rule), " ", element("span", { class: "badge shadow", hidden: "" }, "shadow")),
    element("td", { class: "number", "data-label": " refused" }),
    element("td", { class: "number", "data-label": "/min" }),
    element("td", {}),
    element("td", {}, inspect));
}

/** The key of a client, if its ID is the key. */
function knownKey(client, identities) {
  if (client === "*") return "";
  return identities === "plain" && client.length <= MAX_ID_LENGTH ? client : undefined;
}

function update(node, client, now, panel) {
  const [, rule, refusals, rate, seen, action] = node.children;
  rule.lastChild.hidden = !panel.shadow.has(client.rule);
  // A rule that denies has no counters.
  action.firstChild.hidden = !panel.counting.has(client.rule);
  setText(refusals, `${client.error > 0 ? "≤ " : ""}${count(client.count)}`);
  refusals.title = client.error > 0 ? `between ${count(client.count - client.error)} and ${count(client.count)}` : "";
  setText(rate, count(client.per_minute));
  setText(seen, ago(client.last_seen, now));
}

async function loadOverrides(panel) {
  const { overrides } = await call("GET", "/api/overrides");
  reconcile(byId("override-list"), overrides, (one) => `${one.rule}\n${one.key}\n${one.limit}\n${one.until}`, (one) => overrideRow(one, panel), () => {});
  byId("overrides-empty").hidden = overrides.length > 0;
}

function overrideRow(one, panel) {
  const end = element("button", { type: "button", "aria-label": `End the override of ${one.key} under ${one.rule}` }, "End");
  end.addEventListener("click", async () => {
    if (!(await confirmed(`End the override of “${one.key}” under ${one.rule}? The policy's limit applies again.`, "End it"))) return;
    await call("DELETE", keyPath("overrides", one.rule, one.key)).catch(() => {});
    await loadOverrides(panel);
  });
  return element("li", {},
    element("div", {}, element("p", {}, foreign(one.key || "all clients", "bdi", "mono")), element("p", { class: "note" }, foreign(one.rule), ` · ${one.limit} until ${date(one.until)}`)),
    end);
}
