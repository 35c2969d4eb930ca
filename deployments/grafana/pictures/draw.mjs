// Draws the dashboards over what fill.mjs left: node draw.mjs ROOT FOLDER PICTURES. It writes a picture of each dashboard into PICTURES.
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import UPNG from 'upng-js';
import { ask, influxdb, stopAll } from './servers.mjs';

const [root, folder, pictures] = process.argv.slice(2).map((path) => resolve(path));
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The browser: that of the system, or the one that CHROMIUM names. */
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

const width = 1600;

/** Milliseconds of the run's end that the live run is drawn over. */
const live = 110_000;

/** Milliseconds in which legends and tables have laid themselves out: they take several passes. */
const settling = 2000;

/** bundled is the page's address, made of page/. */
async function bundled() {
  const out = here('dist/');
  await build({
    entryPoints: [here('page/main.tsx')], outfile: join(out, 'main.js'), bundle: true, format: 'iife', platform: 'browser', minify: true, jsx: 'automatic', logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
    loader: { '.svg': 'dataurl', '.png': 'dataurl', '.woff2': 'dataurl', '.woff': 'dataurl', '.ttf': 'dataurl' },
  });
  copyFileSync(here('page/page.html'), join(out, 'page.html'));
  return pathToFileURL(join(out, 'page.html')).href;
}

/** known are the runs, the newest first, and when the newest began and ended. */
async function known(url) {
  const [{ values }] = await ask(url, 'spate', `SELECT "run", "text" FROM "spate_event" WHERE "kind" = 'run_began' ORDER BY time DESC`);
  const runs = values.map((row) => row[1]);
  const [ended] = await ask(url, 'spate', `SELECT "run", "text" FROM "spate_event" WHERE "kind" = 'run_ended' AND "run" = '${runs[0]}'`);
  return { runs, from: values[0][0] - 2000, to: ended.values[0][0] + 2000 };
}

/** small makes a picture of 128 colours of it. */
function small(png) {
  const image = UPNG.decode(png);
  return Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, 128));
}

/** picture draws a dashboard and returns its panels without data. */
async function picture(browser, page, file, setting) {
  const tab = await browser.newPage({ viewport: { width: width + 24, height: 900 } });
  const faults = [];
  tab.on('pageerror', (error) => faults.push(error.message));
  if (process.env.DEBUG) tab.on('console', (m) => console.error(m.text()));
  await tab.goto(page);
  const board = JSON.parse(readFileSync(file, 'utf8'));
  const empty = await tab.evaluate(([b, s, w]) => window.show(b, s, w), [board, setting, width]);
  const { height } = await tab.locator('.dashboard').boundingBox();
  await tab.setViewportSize({ width: width + 24, height: Math.ceil(height) }); // Tables out of sight are not drawn.
  await tab.waitForTimeout(settling);
  const png = await tab.locator('.dashboard').screenshot({ type: 'png' });
  await tab.close();
  if (faults.length > 0) throw new Error(`${basename(file)}: ${faults[0]}`);
  writeFileSync(join(pictures, `dashboard-${basename(file, '.json')}.png`), small(png));
  return empty;
}

async function draw() {
  mkdirSync(pictures, { recursive: true });
  const page = await bundled();
  const url = await influxdb(join(root, '.bin', 'influxd'), join(folder, 'influxdb'));
  const { runs, from, to } = await known(url);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-web-security'] });
  const dashboards = join(root, 'deployments', 'grafana', 'dashboards');
  let empty = 0;
  for (const name of readdirSync(dashboards)) {
    const variables = { ...(name === 'compare.json' && { baseline: [runs[1]] }), run: [runs[0]], target: [], stage: [], region: [] };
    const titles = await picture(browser, page, join(dashboards, name), { url, database: 'spate', from: name === 'live.json' ? to - live : from, to, variables });
    for (const title of titles) console.error(`${name}: nothing to show in "${title}"`);
    empty += titles.length;
  }
  await browser.close();
  if (empty > 0) process.exitCode = 1;
}

try {
  await draw();
} finally {
  await stopAll();
}
