// A key is inspected, overridden and reset; each change asks first, and is logged.
const { api, assert, check, inBrowser, isLive, text, until } = require("./browser.js");

const alice = { identities: { user: "alice" } };
const state = async () => (await api("GET", "/api/keys/per-user/alice")).json;

inBrowser(async (open) => {
  await check(alice, 5);
  const page = await open("/#clients");
  await isLive(page);
  await inspectsAClientByItsKey(page);
  await overridesAfterConfirmation(page);
  await resetsAfterConfirmation(page);
  await endsTheOverride(page);
  await reportsErrors(page);
  await changesAreLogged();
}, [/status of 400/]);

async function inspectsAClientByItsKey(page) {
  await page.locator("#client-list tr", { hasText: "per-user" }).getByRole("button", { name: "Inspect" }).click();
  // The list has a hash, so the page asks for the key.
  await page.fill("#key-ask-input", "bob");
  await page.locator("#key-ask button").click();
  await page.locator(".match.is-other").waitFor();
  await page.fill("#key-ask-input", "alice");
  await page.locator("#key-ask button").click();
  await page.locator("#key-state", { hasText: "This is the client of the list." }).waitFor();
  assert.match(await text(page, "#key-state"), /3 of 3 used, 0 left; full again in/);
}

async function overridesAfterConfirmation(page) {
  await page.fill("#override-limit", "9/day");
  await page.fill("#override-for", "1h");
  await page.locator("#override-form button").click();
  assert.match(await text(page, "#confirm-text"), /Limit “alice” under per-user to 9\/day for 1h\?/);
  await page.locator("#confirm-no").click();
  assert.equal((await state()).override, null);
  await page.locator("#override-form button").click();
  await page.locator("#confirm-yes").click();
  await page.locator("#key-done", { hasText: "Override set, and logged." }).waitFor();
  assert.equal((await state()).override.limit, "9/day");
  assert.match(await text(page, "#key-state"), /of 9 used.*an operator's override/s);
  await page.locator("#override-list li", { hasText: "alice" }).waitFor({ state: "attached" });
}

async function resetsAfterConfirmation(page) {
  await page.locator("#reset").click();
  await page.locator("#confirm-no").click();
  assert.notEqual((await state()).counters[0].used, 0);
  await page.locator("#reset").click();
  await page.locator("#confirm-yes").click();
  await page.locator("#key-done", { hasText: "Reset, and logged." }).waitFor();
  assert.equal((await state()).counters[0].used, 0);
  assert.match(await text(page, "#key-state"), /0 of 9 used/);
  await page.locator("#key-close").click();
}

async function endsTheOverride(page) {
  await page.locator("#override-list button").click();
  await page.locator("#confirm-yes").click();
  await until("the end of the override", async () => (await state()).override === null);
  await page.locator("#overrides-empty").waitFor();
}

async function reportsErrors(page) {
  await page.selectOption("#key-rule", "per-ip");
  await page.fill("#key-input", "not an address");
  await page.locator("#key-form button").click();
  await page.locator("#key-problem", { hasText: "not a key of this rule" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#key-dialog").isVisible(), false);
}

/** Reads the changes from the event stream. */
async function changesAreLogged() {
  const stream = await fetch(`${process.env.PAGE_URL}/api/events`);
  const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
  let seen = "";
  const changes = () => [...seen.matchAll(/"change":"(\w+)","rule":"per-user".*?"done":true/g)].map((found) => found[1]);
  while (changes().length < 3) seen += (await reader.read()).value;
  assert.deepEqual(changes(), ["override", "reset", "end_override"]);
  await reader.cancel();
}
