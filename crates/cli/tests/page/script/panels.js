// Every panel shows what the API returns.
const { api, assert, check, inBrowser, isLive, text, until, url } = require("./browser.js");

inBrowser(async (open) => {
  const page = await open();
  await isLive(page);
  await check({ ip: "203.0.113.9", path: "/search" }, 5);
  await check({ ip: "203.0.113.9", identities: { user: "alice" } }, 8);
  await showsNow(page);
  await showsRules(page);
  await showsClients(page);
  await showsExplanation(page);
  await showsComparison(page);
  await showsDrawnTraffic(page);
}, [/status of 400/]);

async function showsNow(page) {
  await until("the decisions in the status", async () => {
    const { decisions } = (await api("GET", "/api/status")).json;
    return decisions.allowed === 8 && decisions.refused === 5;
  });
  await until("the decisions on the page", async () => (await text(page, "#rate-note")).startsWith("13 decisions"));
  // 5 of 13; rates are rounded, and an interval is not exactly a second.
  const refused = parseFloat(await text(page, "#refused"));
  assert.ok(refused > 28 && refused < 50, `${refused} %`);
  assert.match(await text(page, "#latency"), /^[<>] /);
  const { store } = (await api("GET", "/api/status")).json;
  assert.match(store.summary, /^Counters are in this process: (fewer than|about) [\d,]+ of 1,000,000 keys are in use\.$/);
  assert.equal(await text(page, "#store-state"), "Healthy");
  assert.match(await text(page, "#store-summary"), /^Counters are in this process/);
}

async function showsRules(page) {
  const { rules } = (await api("GET", "/api/rules")).json;
  await page.locator(".rule").nth(rules.length - 1).waitFor();
  const cards = await page.locator(".rule").allInnerTexts();
  assert.equal(cards.length, rules.length);
  for (const [at, rule] of rules.entries()) {
    assert.ok(cards[at].startsWith(rule.rule), cards[at]);
    for (const limit of rule.grants.flatMap((grant) => grant.limits)) assert.ok(cards[at].includes(limit.limit), cards[at]);
  }
  assert.match(cards[0], /Promise: at most 100 requests in any minute/);
  assert.match(cards[2], /shadow: never refuses/);
  assert.match(cards[3], /denies/);
  await page.locator(".rule summary").first().click();
  const promise = await text(page, ".rule details[open] pre");
  assert.equal(promise, rules[0].text.split("\n").map((line) => line.trim()).join("\n"));
  // The rate of a moment ago is in the chart, which describes itself.
  const label = await page.locator(".rule svg").nth(1).getAttribute("aria-label");
  assert.match(label, /^per-user: \d+ allowed and \d+ refused a second, at most [1-9]/);
}

async function showsClients(page) {
  await page.locator("#tab-clients").click();
  const top = (await api("GET", "/api/top?rule=per-user")).json.rules[0].offenders[0];
  const row = page.locator("#client-list tr", { hasText: "per-user" });
  assert.equal(await row.locator("td").first().innerText(), top.client);
  assert.equal(await row.locator("td").nth(2).innerText(), String(top.count));
  assert.equal(top.count, 5);
  const shadow = page.locator("#client-list tr", { hasText: "search-next" });
  assert.match(await shadow.innerText(), /shadow/);
  await shadow.getByRole("button", { name: "Inspect" }).waitFor();
  await check({ ip: "10.1.2.3", path: "/admin/users" });
  const denied = page.locator("#client-list tr", { hasText: "inside" });
  await denied.waitFor();
  assert.equal(await denied.getByRole("button").count(), 0);
  assert.equal(await page.locator("#clients-empty").isVisible(), false);
}

async function showsExplanation(page) {
  await page.locator("#tab-why").click();
  await page.fill("#why-user", "alice");
  await page.fill("#why-path", "/search");
  await page.fill("#why-headers", "X-Tier: pro\nX-Note: a: b");
  const before = await counted();
  await page.locator("#why-form button").click();
  await page.locator("#why-result .verdict").waitFor();
  const shown = await text(page, "#why-result");
  const body = { ip: "203.0.113.9", path: "/search", method: "GET", identities: { user: "alice" }, headers: { "X-Tier": "pro", "X-Note": "a: b" } };
  const { explanation, now } = (await api("POST", "/api/explain", body)).json;
  assert.equal(now.allowed, false);
  assert.match(shown, /would be refused now, and pass in .*per-user decides/);
  for (const rule of explanation.rules) assert.ok(shown.includes(rule.applies ? rule.key : rule.reason), rule.rule);
  assert.match(shown, /0 of 3 left now/);
  assert.deepEqual(await counted(), before);
  await page.fill("#why-ip", "nowhere");
  await page.locator("#why-form button").click();
  await page.locator("#why-result .problem", { hasText: "must be an IPv4 or IPv6 address" }).waitFor();
}

/** Returns the metrics that a decision would change. */
async function counted() {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return metrics.split("\n").filter((line) => /^tollgate_(decisions_total|headroom)/.test(line));
}

async function showsComparison(page) {
  await page.locator("#tab-playground").click();
  await page.locator("#algorithm-list[data-state=done]").waitFor();
  const { algorithms } = (await api("POST", "/api/compare", { limit: "100/min", traffic: "boundary" })).json;
  const rows = await page.locator(".algorithm").allInnerTexts();
  assert.equal(rows.length, 6);
  for (const [at, algorithm] of algorithms.entries()) {
    assert.ok(rows[at].startsWith(algorithm.algorithm), rows[at]);
    assert.ok(rows[at].includes(`${algorithm.admitted} admitted, ${algorithm.refused} refused`), rows[at]);
  }
  assert.match(rows[3], /200 in any minute: 100 over the limit/);
  assert.match(rows[4], /100 in any minute: within the limit/);
  await page.fill("#play-limit", "1000000/min");
  await page.locator("#play-form button").click();
  await page.locator("#play-problem", { hasText: "at most 500" }).waitFor();
}

async function showsDrawnTraffic(page) {
  await page.fill("#play-limit", "10/min");
  await page.selectOption("#play-traffic", "drawn");
  await page.locator("#algorithm-list[data-state=done]").waitFor();
  const admitted = () => page.locator(".algorithm").nth(4).innerText();
  const before = await admitted();
  // By keyboard: the first slot has no request, and End sends the most.
  await page.locator("#slots input").first().focus();
  await page.keyboard.press("End");
  await until("the drawn requests", async () => (await admitted()) !== before);
  assert.match(await admitted(), /admitted, [1-9]\d* refused/);
  // By pointer: near the top of the last slot.
  const box = await page.locator("#slots").boundingBox();
  await page.mouse.click(box.x + box.width - 10, box.y + 10);
  await until("the drawn slot", async () => Number(await page.locator("#slots input").last().inputValue()) > 50);
}
