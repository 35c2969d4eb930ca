// Checks pages of runs and comparisons: node check.mjs PAGE.html... It opens each in headless Chromium, light and dark, on a desktop and
// on a phone, and fails if axe finds anything, if the page asks for anything over the network, if its policy blocks
// something of its own, or if it is wider than the window. `make test-page` runs it after html-validate.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
let findings = 0;
const found = (...words) => {
  findings++;
  console.error(...words);
};

// open opens a page in a window, and reports what its policy blocks and what it asks for.
async function open(file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => found(file, "console:", message.text()));
  page.on("request", (request) => request.url().startsWith("file:") || found(file, "request:", request.url()));
  await page.goto("file://" + resolve(file));
  return page;
}

// point points at every marker of a page, with a mouse and a finger, and comes to it by the keyboard: each says its words.
async function point(file) {
  const page = await open(file, { viewport: { width: 1280, height: 900 }, hasTouch: true });
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  const said = async (how, words) => {
    const { text, outside } = await page.evaluate(() => {
      const tip = document.querySelector(".tip");
      const box = tip.getBoundingClientRect();
      return { text: tip.hidden ? "" : tip.textContent, outside: box.left < 0 || box.right > innerWidth };
    });
    if (!words || !text.includes(words)) found(file, how, "at", words, "says", text);
    if (outside) found(file, how, "at", words, "is beyond the window");
  };
  let points = 0;
  for (const chart of await page.locator("figure svg:has(circle.h)").all()) {
    await chart.scrollIntoViewIfNeeded();
    await page.keyboard.press("Escape"); // the next focus is by the keyboard
    await chart.locator('[tabindex="0"]').focus();
    for (const words of await chart.evaluate((svg) => [...svg.querySelectorAll(".p")].map((p) => p.ariaLabel))) {
      await said("the keyboard", words);
      await page.keyboard.press("ArrowRight");
    }
    await page.keyboard.press("Escape");
    if (await page.locator(".tip").isVisible()) found(file, "Escape does not close a tooltip");
    const all = await chart.evaluate((svg) => [...svg.querySelectorAll("circle.h")].map((circle) => {
      const box = circle.getBoundingClientRect();
      return { x: box.left + box.width / 2, y: box.top + box.height / 2, words: circle.parentElement.ariaLabel };
    }));
    points += all.length;
    for (const { x, y, words } of all) {
      await page.mouse.move(x + 3, y);
      await page.mouse.move(x, y);
      await said("the mouse", words);
    }
    await page.mouse.move(0, 0); // the first tap on a point only says its words
    await page.touchscreen.tap(all[0].x, all[0].y);
    await said("a finger", all[0].words);
  }
  return points;
}

// slo types limits: a point at its own p95 is within it, and beyond the next smaller one, which the answer says.
async function slo(file) {
  const page = await open(file, { viewport: { width: 1280, height: 900 } });
  for (const form of await page.locator("form.slo").all()) {
    const input = form.locator("input").last();
    const point = form.locator("xpath=..").locator("[data-p95]").first();
    const p95 = Number((await point.getAttribute("data-p95")).split(" ")[2]);
    for (const [limit, opacity, says] of [[p95, "1", "no higher load|is beyond"], [p95 * 0.999, "0.3", "is beyond.*no lower load"], ["", "1", "^$"]]) {
      await input.fill(String(limit));
      const pale = await point.evaluate((p) => getComputedStyle(p).opacity);
      const answer = await form.locator("output").innerText();
      if (pale !== opacity || !new RegExp(says).test(answer)) found(file, "E2E up to", limit, "opacity", pale, "says", answer);
    }
  }
}

// slow clicks on a marker, and comes by Enter, to the requests of its stage; and moves the crosshair by its slider and by
// the mouse: each chart has it at the same place, and the words are those of the column.
async function slow(file) {
  const page = await open(file, { viewport: { width: 1280, height: 900 } });
  const marker = page.locator("[data-slow]").first();
  if (await page.locator(".slow").count()) {
    const to = await marker.getAttribute("data-slow");
    for (const go of [() => marker.locator("circle.h").click({ force: true }), async () => (await marker.focus(), page.keyboard.press("Enter"))]) {
      await page.evaluate(() => (location.hash = ""));
      await go();
      const shown = await page.locator("#" + to).evaluate((e) => e.getBoundingClientRect().top < innerHeight && e.checkVisibility());
      if (!shown || !page.url().endsWith("#" + to)) found(file, "a marker does not lead to", to, "but to", page.url());
    }
  }
  const slider = page.locator(".cross input");
  if (!(await slider.count())) return;
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  const said = async (how) => {
    const [lines, words] = await page.evaluate(() => [
      [...document.querySelectorAll("#timeline svg")].map((svg) => svg.querySelector(".crosshair")?.getAttribute("d").split(" ")[0]),
      document.querySelector(".cross input").ariaValueText]);
    if (new Set(lines).size !== 1 || !lines[0] || !/^Second [0-9.]+, stage \d+: .*in flight \d/.test(words)) found(file, how, "crosshair at", lines, "says", words);
    return words;
  };
  await slider.focus();
  await page.keyboard.press("End");
  const before = await said("by the keyboard:");
  const chart = page.locator("#timeline svg").last();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + 0.1 * box.width, box.y + box.height / 2);
  if ((await said("by the mouse:")) === before) found(file, "the crosshair does not follow the mouse");
}

let points = 0;
for (const file of process.argv.slice(2)) {
  const strict = await open(file, {});
  const scripts = await strict.locator("script").count(); // a comparison has none
  const buttons = await strict.locator(".legend button").count();
  if (scripts > 0 && buttons === 0) found(file, "the script did not run");
  if (scripts > 0) points += await point(file);
  await slo(file);
  await slow(file);
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 375]) {
      // axe is a script that the page's policy would block.
      const page = await open(file, { colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run());
      for (const v of violations) found(file, colorScheme, width, v.id, v.help, v.nodes[0].html);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wider > 0) found(file, colorScheme, width, `the page is ${wider} px wider than the window`);
    }
  }
}
await browser.close();
console.log(`${process.argv.length - 2} pages, ${points} markers, ${findings} findings`);
process.exit(findings > 0 ? 1 : 0);
