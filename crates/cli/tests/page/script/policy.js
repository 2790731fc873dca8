// The policy panel shows the file, what a reload changed, and why one failed; never a credential.
const fs = require("node:fs");
const { assert, api, inBrowser, isLive, text, until } = require("./browser.js");

const file = process.env.PAGE_POLICY;

inBrowser(async (open) => {
  const page = await open("/#policy");
  await isLive(page);
  await until("the text of the policy", async () => (await text(page, "#policy-text")).includes("name: per-user"));
  const { fingerprint } = (await api("GET", "/api/policy")).json;
  const facts = await text(page, "#policy-facts");
  assert.ok(facts.includes(file) && facts.includes(fingerprint) && facts.includes("4 rules"), facts);
  await showsNoCredential(page);
  await showsWhatAReloadChanged(page);
  await showsWhyAReloadFailed(page, fingerprint);
  await showsNoCredential(page);
}, [/status of 409/]);

async function showsNoCredential(page) {
  const served = JSON.stringify((await api("GET", "/api/policy")).json);
  for (const shown of [await page.content(), served]) {
    assert.ok(!shown.includes("hunter2") && !shown.includes("sk-leaked") && !shown.includes("0815"));
  }
  assert.match(await text(page, "#policy-text"), /redis:\/\/\[hidden\]@10\.0\.0\.7:6379.*api_key: \[\[hidden\]\]/s);
}

async function reload(page) {
  await page.locator("#reload").click();
  await page.locator("#confirm-yes").click();
}

async function showsWhatAReloadChanged(page) {
  const before = fs.readFileSync(file, "utf8");
  fs.writeFileSync(file, before.replace("limit: 3/day", "limit: 4/day"));
  await reload(page);
  const item = page.locator("#reload-list li").first();
  await item.waitFor();
  assert.match(await item.innerText(), /Reloaded.*1 rule changed: `per-user` \(4\/day/s);
  await until("the new text", async () => (await text(page, "#policy-text")).includes("limit: 4/day"));
  // The rules follow without a reload of the page.
  await page.locator("#tab-rules").click();
  await page.locator(".rule", { hasText: "4/day" }).waitFor();
  await page.locator("#tab-policy").click();
}

async function showsWhyAReloadFailed(page, fingerprint) {
  const before = fs.readFileSync(file, "utf8");
  // The quoted line has a credential.
  fs.writeFileSync(file, before.replace("deny: { api_key: [sk-leaked-0815] }", "deny: { api_kez: [sk-leaked-0815] }"));
  await reload(page);
  const item = page.locator("#reload-list li.is-failed").first();
  await item.waitFor();
  const message = await item.innerText();
  assert.match(message, /Not reloaded: the previous policy stays active/);
  assert.match(message, /policy\.yaml:\d+:\d+: error: .*api_kez/s);
  assert.notEqual((await api("GET", "/api/policy")).json.fingerprint, fingerprint);
  fs.writeFileSync(file, before);
}
