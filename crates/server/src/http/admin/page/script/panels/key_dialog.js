// The state of one key, and what an operator can do about it.

import { call, keyPath } from "../api.js";
import { confirmed } from "../confirm.js";
import { byId, element, foreign, setText } from "../dom.js";
import { count, date, plural, span } from "../format.js";

export class KeyDialog {
  /** `onChange` is called after a change of a key. */
  constructor(onChange) {
    this.onChange = onChange;
    this.subject = undefined;
    byId("key-close").addEventListener("click", () => byId("key-dialog").close());
    byId("key-ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.subject.key = byId("key-ask-input").value.trim();
      this.inspect();
    });
    byId("override-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.override();
    });
    byId("reset").addEventListener("click", () => this.reset());
  }

  /** Opens for a rule and a key; without a key, asks for that of the client with this ID. */
  open(subject) {
    this.subject = { ...subject };
    this.clear();
    byId("key-state").replaceChildren();
    byId("key-actions").hidden = true;
    byId("key-subject").replaceChildren(foreign(subject.rule));
    const isKnown = subject.key !== undefined;
    byId("key-ask").hidden = isKnown;
    byId("key-dialog").showModal();
    if (isKnown) {
      this.inspect();
      return;
    }
    byId("key-ask-note").replaceChildren("The list shows the ID ", foreign(subject.client, "bdi", "mono"), ", and the service does not keep which key it stands for. Enter the key that you expect: the page tells whether it is this client.");
    byId("key-ask-input").value = "";
    byId("key-ask-input").focus();
  }

  async inspect() {
    this.clear();
    const state = await this.attempt(() => call("GET", keyPath("keys", this.subject.rule, this.subject.key)));
    if (state === undefined) return;
    this.subject.key = state.key;
    byId("key-subject").replaceChildren(foreign(state.rule), " · ", foreign(state.key || "all clients", "bdi", "mono"));
    byId("key-state").replaceChildren(...this.match(state), ...stateParts(state));
    byId("key-actions").hidden = false;
  }

  /** Whether the key belongs to the client of the list. */
  match(state) {
    if (this.subject.client === undefined || this.subject.client === "*") return [];
    const isSame = this.subject.client === state.client;
    const text = isSame ? "This is the client of the list." : "This key belongs to another client than the one of the list.";
    return [element("p", { class: isSame ? "match" : "match is-other" }, text)];
  }

  async reset() {
    const { rule, key } = this.subject;
    if (!(await confirmed(`Reset “${key || "all clients"}” under ${rule}? Its usage, its violations and a block are deleted.`, "Reset"))) return;
    await this.change(() => call("DELETE", keyPath("keys", rule, key)), "Reset, and logged.");
  }

  async override() {
    const { rule, key } = this.subject;
    const [limit, duration] = [byId("override-limit").value.trim(), byId("override-for").value.trim()];
    if (!(await confirmed(`Limit “${key || "all clients"}” under ${rule} to ${limit} for ${duration}?`, "Override"))) return;
    await this.change(() => call("PUT", keyPath("keys", rule, key), { limit, for: duration }), "Override set, and logged.");
  }

  async change(request, done) {
    this.clear();
    if ((await this.attempt(request)) === undefined) return;
    await this.inspect();
    setText(byId("key-done"), done);
    this.onChange();
  }

  async attempt(request) {
    try {
      return await request();
    } catch (error) {
      setText(byId("key-problem"), error.message);
      return undefined;
    }
  }

  clear() {
    setText(byId("key-problem"), "");
    setText(byId("key-done"), "");
  }
}

const SOURCES = { rule: "the rule's limit", tier: "the limit of tier", override: "the policy's override", hand: "an operator's override" };

function stateParts(state) {
  const parts = state.counters.map(counter);
  if (state.counters.length === 0) parts.push(element("p", { class: "note" }, "This key has no limit."));
  if (state.blocked_for_ms !== null) parts.push(element("p", { class: "problem" }, `Blocked for another ${span(state.blocked_for_ms)}.`));
  if (state.violations) parts.push(element("p", { class: "note" }, `${plural(state.violations, "violation")} counted towards a block.`));
  if (state.override) parts.push(element("p", { class: "note" }, `An override to ${state.override.limit} ends on ${date(state.override.until)}.`));
  return parts;
}

function counter(one) {
  const used = one.held ?? one.used;
  const bar = element("span");
  bar.style.setProperty("width", `${Math.min(100, one.most === 0 ? 100 : (100 * used) / one.most)}%`);
  const meter = element("div", { class: one.remaining === 0 ? "meter is-low" : "meter" }, bar);
  const reset = one.reset_after_ms === null ? "" : one.reset_after_ms === 0 ? "; unused" : `; full again in ${span(one.reset_after_ms)}`;
  return element("div", { class: "counter" },
    element("p", {}, element("b", {}, `${count(used)} of ${count(one.most)} used`), element("span", { class: "note" }, `, ${count(one.remaining)} left${reset}`)),
    meter,
    element("p", { class: "note" }, `${one.limit} · ${one.algorithm} · ${SOURCES[one.of] ?? one.of} `, one.which ? foreign(one.which) : ""));
}
