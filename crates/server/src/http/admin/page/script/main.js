// Starts the page: the live stream, the panels and the tabs.

import { startClients } from "./panels/clients.js";
import { byId, setText } from "./dom.js";
import { startExplain } from "./panels/explain.js";
import { RateHistory } from "./history.js";
import { KeyDialog } from "./panels/key_dialog.js";
import { LiveStream } from "./live.js";
import { startNow } from "./panels/now.js";
import { startPlayground } from "./panels/playground.js";
import { startPolicy } from "./panels/policy.js";
import { startRules } from "./panels/rules.js";
import { onTokenNeeded, setToken, token } from "./session.js";
import { startTabs } from "./tabs.js";
import { startTheme } from "./theme.js";

const history = new RateHistory();
const showNow = startNow();
const rules = startRules();
const dialog = new KeyDialog(() => quietly(clients.loadOverrides()));
const clients = startClients(dialog);
const playground = startPlayground();
const policy = startPolicy();
startExplain();
startTheme();
const tabs = startTabs({ clients: () => quietly(clients.loadOverrides()), playground: playground.show, policy: () => quietly(policy.load()) });

/** What of the policy the panels show; another version is loaded. */
let shownPolicy;

/** Overrides are not part of the status: they are loaded with every fifth, while they are shown. */
const OVERRIDES_EVERY = 5;
let statuses = 0;

const stream = new LiveStream(receive, showConnection);
setText(byId("host"), location.host);
document.title = `tollgate · ${location.host}`;

onTokenNeeded((reason) => {
  stream.stop();
  setToken(null);
  shownPolicy = undefined;
  byId("main").hidden = true;
  byId("token").hidden = false;
  byId("sign-out").hidden = true;
  document.querySelectorAll("dialog[open]").forEach((open) => open.close());
  setText(byId("token-problem"), reason);
  byId("token-input").focus();
});

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token-input").value.trim());
  byId("token-input").value = "";
  start();
});

byId("sign-out").addEventListener("click", () => {
  setToken(null);
  location.reload();
});

start();

function start() {
  byId("token").hidden = true;
  byId("main").hidden = false;
  byId("sign-out").hidden = !token();
  stream.restart();
}

function receive(name, data) {
  if (name === "history") {
    history.replace(data);
    return;
  }
  history.add(data);
  showNow(data, history);
  rules.show(data, history);
  clients.show(data);
  statuses += 1;
  if (statuses % OVERRIDES_EVERY === 0 && tabs.shown() === "clients") quietly(clients.loadOverrides());
  const version = `${data.policy.fingerprint} ${data.policy.loaded_at} ${data.policy.last_reload?.time}`;
  if (version !== shownPolicy) {
    shownPolicy = version;
    quietly(loadPolicy());
  }
}

async function loadPolicy() {
  await rules.load();
  clients.setRules(rules.all());
  if (tabs.shown() === "policy") await policy.load();
}

function showConnection(state, reason) {
  const pill = byId("connection");
  const texts = { live: "Live", lost: reason || "Connection lost, reconnecting", refused: reason };
  document.body.classList.toggle("is-stale", state !== "live");
  pill.dataset.state = state;
  setText(byId("connection-text"), texts[state]);
}

/** Ignores a failure that the connection state shows anyway. */
function quietly(promise) {
  promise.catch((error) => {
    // Loaded again with the next status.
    if (error.status !== 401) shownPolicy = undefined;
  });
}
