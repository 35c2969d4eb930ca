// Checks the pages of a coordinator: node live.mjs SPATE DIRECTORY. It starts a coordinator, two agents and a simulator.
// In headless Chromium it watches one run to its end and stops another by its button, compares both, and checks what
// the pages say against results.json. Each page is checked by axe, light and dark, on a desktop and on a phone. Data,
// logs and pictures go into DIRECTORY. `make test-page` runs it.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [spate, pictures] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });

// start starts a program, and returns what the expressions find in what it prints, in their order.
const programs = [];
function start(args, ...expressions) {
  const program = spawn(spate, args, { stdio: ["ignore", "pipe", "pipe"] });
  programs.push(program);
  return new Promise((resolve, reject) => {
    let printed = "";
    const look = (data) => {
      printed += data;
      writeFileSync(`${pictures}/${args[0]}.log`, printed);
      const all = expressions.map((e) => printed.match(e)?.[1]);
      if (all.every(Boolean)) resolve(all);
    };
    program.stdout.on("data", look);
    program.stderr.on("data", look);
    program.on("exit", () => reject(new Error(`${args[0]} ended: ${printed}`)));
  });
}
process.on("exit", () => programs.forEach((p) => p.kill()));

const [target] = await start(["simulate", "--listen", "127.0.0.1:0"], /Serving (\S+);/);
const [url, address] = await start(["coordinator", "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0",
  "--web-listen", "127.0.0.1:0", "--data-dir", `${pictures}/data`], /over HTTP" url=(\S+)/, /serves" address=(\S+)/);
for (const region of ["eu", "us"]) {
  await start(["agent", "--coordinator", address, "--name", `${region}-1`, "--region", region], /(agent is ready)/);
}
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
let findings = 0;
let pages = 0;
const found = (...words) => {
  findings++;
  console.error(...words);
};

// open opens a page, and reports whatever it says on the console and whatever it asks of others.
async function open(path, options) {
  const page = await (await browser.newContext(options)).newPage();
  page.on("console", (m) => path === "/runs/none" || found(path, "console:", m.text())); // a browser notes its 404
  page.on("pageerror", (error) => found(path, "error:", error.message));
  page.on("request", (request) => request.url().startsWith(url) || found(path, "request:", request.url()));
  await page.goto(url + path);
  return page;
}

// settled returns what a check of a page returns, and checks again if the page was loaded again meanwhile: that of a run
// that ends is.
async function settled(page, check) {
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (!error.message.includes("Execution context was destroyed")) throw error;
      await page.waitForLoadState();
    }
  }
}

// inspect checks a page by axe in all shapes, and that it is not wider than the window.
async function inspect(name, path) {
  pages++;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 375]) {
      const page = await open(path, { colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
      const { violations } = await settled(page, async () => {
        await page.evaluate(axe);
        return page.evaluate(() => axe.run());
      });
      for (const v of violations) found(name, colorScheme, width, v.id, v.help, v.nodes[0].html);
      const wider = await settled(page, () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth));
      if (wider > 0) found(name, colorScheme, width, `the page is ${wider} px wider than the window`);
      await page.screenshot({ path: `${pictures}/${name}-${colorScheme}-${width}.png`, fullPage: true });
      await page.context().close();
    }
  }
}

const json = async (path) => (await fetch(url + "/api/v1" + path)).json();

async function submit(name, seconds) {
  const plan = `name: ${name}
seed: 1
targets: [{name: sim, endpoints: ["${target}"], model: m}]
workloads: [{random: {isl: 100, osl: 20}}]
loads: [{concurrency: [2, 4], duration: ${seconds}s, warmup: {duration: 0s}}]
`;
  const answer = await fetch(url + "/api/v1/runs", {
    method: "POST", body: plan, headers: { "Content-Type": "application/yaml" },
  });
  return (await answer.json()).runId;
}

// Two runs, of which one waits for the other.
const watched = await submit("watched", 25);
const stopped = await submit("stopped", 600); // longer than all checks take

// Watch: what the page says changes by itself, and the page of the ended run links to its report. On a busy machine the
// run may end while pages are checked, so the change is awaited before.
const live = await open(`/runs/${watched}`, {});
const text = (page, part) => page.locator(part).innerText();
await live.waitForFunction(() => document.querySelectorAll("#charts svg").length === 6, null, { timeout: 60000 });
const before = await text(live, "#stage");
await live.waitForFunction((old) => document.querySelector("#stage").innerText !== old, before, { timeout: 10000 });
await inspect("live", `/runs/${watched}`);
await inspect("stage", `/runs/${watched}?stage=1`);
await inspect("list", "/");
await inspect("waiting", `/runs/${stopped}`);
await live.waitForSelector("#report", { timeout: 120000 });
const results = await json(`/runs/${watched}/files/results.json`);
const shown = await settled(live, () => live.locator("#stages tbody tr").evaluateAll((rows) =>
  rows.map((row) => row.querySelectorAll("td")[4].innerText)));
if (shown.length !== results.stages.length) found("stages:", shown.length, "want", results.stages.length);
for (const [i, text] of shown.entries()) {
  const done = Number(text.replaceAll(",", ""));
  const { completed } = results.stages[i].requests;
  if (done !== completed) found(`stage ${i + 1}:`, done, "completed, results.json has", completed);
}
await inspect("ended", `/runs/${watched}`);

// First paint: the page must be there before a person waits for it.
const painted = await open(`/runs/${watched}`, {});
const paint = await settled(painted, () => painted.evaluate(() => new Promise((resolve) => {
  new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime))
    .observe({ type: "paint", buffered: true });
})));
console.log(`first paint of a run's page: ${paint.toFixed(0)} ms`);

// Stop: by the button, with the keyboard.
const victim = await open(`/runs/${stopped}`, {});
await victim.waitForFunction(() => document.querySelectorAll("#charts svg").length === 6, null, { timeout: 60000 });
await victim.getByRole("button", { name: "Stop: let requests in flight end" }).focus();
await victim.keyboard.press("Enter");
await victim.waitForSelector("#report", { timeout: 120000 });
const state = (await json(`/runs/${stopped}`)).outcome;
if (state !== "OUTCOME_STOPPED") found("the stopped run:", state);

// Compare: from the list, with the keyboard.
const list = await open("/", {});
await list.locator("select[name=baseline]").selectOption(watched);
await list.locator("select[name=run]").selectOption(stopped);
await list.getByLabel("with INVALID stages").check();
await list.getByRole("button", { name: "Compare" }).press("Enter");
await list.waitForLoadState();
const compared = await list.locator("body").innerText();
for (const id of [watched, stopped]) if (!compared.includes(id)) found("the comparison does not name", id);
await inspect("compare", `/compare?baseline=${watched}&run=${stopped}&allow_invalid=true`);
await inspect("history", "/history");
await inspect("failure", "/runs/none");

await browser.close();
console.log(`${pages} live pages, ${findings} findings`);
process.exit(findings > 0 ? 1 : 0);
