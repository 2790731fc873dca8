// Values that clients choose are shown as text, whatever they contain, and do not break the layout.
const { assert, check, inBrowser, isLive, until } = require("./browser.js");

const markup = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;
const rightToLeft = "\u202Eevil\u202C \u05e9\u05dc\u05d5\u05dd";
const long = "x".repeat(3000);

inBrowser(async (open) => {
  for (const user of [markup, rightToLeft, long, "'\"&amp;"]) await check({ ip: "203.0.113.9", identities: { user } }, 5);
  const page = await open("/#clients", { viewport: { width: 360, height: 740 } });
  await isLive(page);
  await until("the clients", async () => (await page.locator("#client-list tr").count()) === 4);
  const names = await page.locator("#client-list .client").allInnerTexts();
  assert.ok(names.some((name) => name.includes("<script>alert(2)</script>")), names.join("\n"));
  await fits(page);
  // Plain IDs are keys: a click inspects the key.
  await page.locator("#client-list tr", { hasText: "<script>" }).getByRole("button").click();
  await page.locator("#key-subject", { hasText: "<script>alert(2)</script>" }).waitFor();
  await page.locator("#key-state", { hasText: "This is the client of the list." }).waitFor();
  await page.locator("#reset").click();
  assert.ok((await page.locator("#confirm-text").innerText()).includes(markup));
  await page.locator("#confirm-no").click();
  await page.locator("#key-close").click();
  await page.locator("#tab-why").click();
  for (const [user, path] of [[markup, `/${markup}`], [rightToLeft, "/a"], [long, `/${long}`]]) {
    await page.fill("#why-user", user);
    await page.fill("#why-path", path);
    await page.locator("#why-form button").click();
    const shown = page.locator("#why-result .identities li", { hasText: user.slice(0, 50) });
    await shown.first().waitFor();
    await fits(page);
  }
  // Neither an element of the markup nor a foreign direction.
  assert.equal(await page.locator("main img, main script").count(), 0);
  const isolated = await page.locator("#why-result .foreign").first().evaluate((node) => getComputedStyle(node).unicodeBidi);
  assert.match(isolated, /isolate/);
}, []);

/** The page scrolls only downwards. */
async function fits(page) {
  const [width, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(width <= inner, `${width} of ${inner} pixels`);
}
