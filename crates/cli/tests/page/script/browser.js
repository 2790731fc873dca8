// A browser with the page of the service, for one test script.
const assert = require("node:assert");
const readline = require("node:readline");
const { chromium } = require("playwright-core");

const url = process.env.PAGE_URL;
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** How long anything may take on a busy machine. */
const PATIENCE_MS = 20_000;

/** Asks the test to do something, and waits until it is done. */
async function ask(what) {
  console.log(`ask: ${what}`);
  assert.equal((await answers.next()).value, "done");
}

/** Calls the admin API as a program. */
async function api(method, path, body, headers = {}) {
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}

/** Sends a check, and returns whether it is allowed. */
async function check(request, times = 1) {
  let allowed;
  for (let at = 0; at < times; at += 1) {
    const response = await fetch(`${process.env.CHECK_URL}/v1/check`, { method: "POST", body: JSON.stringify(request) });
    allowed = (await response.json()).allowed;
  }
  return allowed;
}

/** Polls until `probe` returns a true value, and returns it. */
async function until(what, probe, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  for (;;) {
    const result = await probe();
    if (result) return result;
    assert.ok(Date.now() < end, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs a script in a browser. The console must stay free of errors other than the expected ones. */
function inBrowser(script, expectedErrors = []) {
  run(script, expectedErrors).then(
    () => process.exit(0),
    (error) => {
      console.log(error.stack ?? error);
      process.exit(1);
    },
  );
}

async function run(script, expectedErrors) {
  const options = { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] };
  const browser = await chromium.launch(options);
  const errors = [];
  const open = async (path = "/", settings = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...settings });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("dialog", (dialog) => errors.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await page.goto(url + path);
    return page;
  };
  try {
    await script(open);
  } finally {
    await browser.close();
  }
  const unexpected = errors.filter((text) => !expectedErrors.some((expected) => expected.test(text)));
  assert.deepEqual(unexpected, [], "errors on the console");
}

const text = (page, selector) => page.locator(selector).innerText();

/** Waits until the page receives the live stream. */
const isLive = (page) => page.locator("#connection[data-state=live]").waitFor();

module.exports = { api, ask, assert, check, inBrowser, isLive, text, until, url };
