// The page is small, loads nothing from elsewhere, and runs no script but its own.
const { assert, inBrowser, isLive, url } = require("./browser.js");

const MAX_BYTES = 150_000;

inBrowser(async (open) => {
  const page = await open();
  await isLive(page);
  const loaded = [];
  page.on("response", (response) => loaded.push(response));
  await page.reload();
  await isLive(page);
  const files = loaded.filter((response) => !response.url().includes("/api/"));
  assert.ok(files.length > 10 && loaded.every((response) => response.url().startsWith(url)), `${files.length} files`);
  const bytes = files.reduce((sum, file) => sum + Number(file.headers()["content-length"]), 0);
  const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`${files.length} files, ${bytes} bytes, first paint after ${Math.round(painted)} ms`);
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  for (const file of files) {
    const policy = file.headers()["content-security-policy"];
    assert.ok(policy.startsWith("default-src 'none'") && !policy.includes("unsafe"), policy);
  }
  // Inline scripts do not run, and text cannot become markup.
  const injected = await page.evaluate(() => {
    const script = document.createElement("script");
    try {
      script.textContent = "window.injected = true";
      document.body.append(script);
    } catch (error) {
      return error.name;
    }
    return String(window.injected);
  });
  assert.ok(["TypeError", "undefined"].includes(injected), injected);
  const markup = await page.evaluate(() => {
    try {
      document.body.insertAdjacentHTML("beforeend", "<b>x</b>");
    } catch (error) {
      return error.name;
    }
    return "parsed";
  });
  assert.equal(markup, "TypeError");
}, [/Content Security Policy/, /Trusted/]);
