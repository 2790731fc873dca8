// No serious violation of accessibility rules in any panel, theme or width, and everything works by keyboard.
const { assert, check, inBrowser, isLive, until } = require("./browser.js");
const axe = require("node:fs").readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PANELS = ["rules", "clients", "why", "playground", "policy"];

inBrowser(async (open) => {
  await check({ ip: "203.0.113.9", path: "/search", identities: { user: "alice" } }, 6);
  for (const settings of [
    { colorScheme: "light", viewport: { width: 1280, height: 900 } },
    { colorScheme: "dark", viewport: { width: 360, height: 740 } },
  ]) {
    // The checker builds elements from text, which the policy of the page forbids.
    const page = await open("/", { ...settings, bypassCSP: true });
    await isLive(page);
    await page.evaluate(axe);
    for (const panel of PANELS) {
      await page.locator(`#tab-${panel}`).click();
      if (panel === "why") await page.locator("#why-form button").click();
      if (panel === "playground") await page.locator("#algorithm-list[data-state=done]").waitFor();
      await violates(page, `${settings.colorScheme} ${panel}`);
      const [width, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(width <= inner, `${panel}: ${width} of ${inner} pixels`);
    }
    await page.locator("#tab-clients").click();
    await page.locator("#client-list button").first().click();
    await violates(page, `${settings.colorScheme} dialog`);
    await page.context().close();
  }
  await worksByKeyboard(await open());
});

async function violates(page, where) {
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(bad.map(({ id, nodes }) => `${where}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`), []);
}

async function worksByKeyboard(page) {
  await isLive(page);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "skip");
  await page.locator("#tab-rules").focus();
  for (const panel of ["clients", "why", "playground", "policy", "rules", "policy"]) {
    await page.keyboard.press(panel === "policy" && (await focused()) === "tab-rules" ? "ArrowLeft" : "ArrowRight");
    assert.equal(await focused(), `tab-${panel}`);
    assert.equal(await page.locator(`#${panel}`).isVisible(), true);
    assert.equal(await page.locator("[role=tabpanel]:visible").count(), 1);
  }
  assert.match(page.url(), /#policy$/);
  // The skip link moves the focus, and stays on the panel.
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "main");
  assert.equal(await page.locator("#policy").isVisible(), true);
  await page.locator("#tab-policy").focus();
  // The focus is visible, and a chosen theme stays.
  const outline = await page.locator("#tab-policy").evaluate((node) => getComputedStyle(node).outlineStyle);
  assert.equal(outline, "solid");
  await page.locator("#theme").focus();
  await page.keyboard.press("Enter");
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), "dark");
  await page.reload();
  await until("the theme", async () => (await theme()) === "dark");
}
