// With an admin token the page shows nothing until it is entered, and keeps it in the tab only.
const { api, assert, inBrowser, isLive, text, url } = require("./browser.js");

const token = process.env.PAGE_TOKEN;

inBrowser(async (open) => {
  assert.equal((await api("GET", "/api/status")).status, 401);
  assert.equal((await fetch(`${url}/`)).status, 200);
  const page = await open();
  await page.locator("#token-input").waitFor();
  assert.equal(await page.locator("main").isVisible(), false);
  await page.fill("#token-input", "another-token-altogether");
  await page.keyboard.press("Enter");
  await page.locator("#token-problem", { hasText: "wrong admin token" }).waitFor();
  await page.fill("#token-input", token);
  await page.keyboard.press("Enter");
  await isLive(page);
  await page.locator(".rule").first().waitFor();
  assert.equal(await page.locator("#token").isVisible(), false);
  const kept = await page.evaluate(() => [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, location.href]);
  assert.deepEqual(kept.map((place) => place.includes("a-token-of")), [false, true, false, false]);
  // The same tab keeps it; another does not have it.
  await page.reload();
  await isLive(page);
  const other = await open();
  await other.locator("#token-input").waitFor();
  await page.locator("#sign-out").click();
  await page.locator("#token-input").waitFor();
  assert.equal(await text(page, "#token-problem"), "");
}, [/status of 401/]);
