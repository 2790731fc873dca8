// Decisions appear while the page is open; a cut connection is shown, and recovers by itself.
const { ask, assert, check, inBrowser, isLive, text, until } = require("./browser.js");

/** The promise of the page: what happened is on it this much later. */
const SHOWN_WITHIN_MS = 2000;

const total = async (page) => Number((await text(page, "#rate-note")).match(/^\d+/)?.[0]);

inBrowser(async (open) => {
  const page = await open();
  await isLive(page);
  await until("the first reading", async () => (await total(page)) === 0);
  // A busy machine may delay one reading, not all of three.
  const delays = [];
  for (let at = 1; at <= 3; at += 1) {
    await check({ ip: "203.0.113.9" });
    const begun = Date.now();
    await until("the decision", async () => (await total(page)) === at);
    delays.push(Date.now() - begun);
  }
  console.log(`a decision appears after ${delays} ms`);
  assert.ok(Math.min(...delays) < SHOWN_WITHIN_MS, `${delays}`);
  await ask("stop");
  await page.locator("#connection[data-state=lost]").waitFor();
  assert.match(await text(page, "#connection"), /^Connection lost, reconnecting$/);
  await ask("start");
  await isLive(page);
  // The counters of the new process.
  await until("the new process", async () => (await total(page)) === 0);
  await check({ ip: "203.0.113.9" });
  await until("a decision after the cut", async () => (await total(page)) === 1);
}, [/ERR_CONNECTION_REFUSED/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/]);
