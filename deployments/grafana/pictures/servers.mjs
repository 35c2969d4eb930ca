// Starts the programs that a picture needs, each in a process of its own, and ends them.
import { spawn } from 'node:child_process';
import { mkdirSync, openSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';

/** Processes that this program started and that have not ended. */
const running = new Set();

/** start runs a program; what it says goes into a file. */
export function start(program, args, log) {
  const out = openSync(log, 'a');
  const child = spawn(program, args, { stdio: ['ignore', out, out] });
  running.add(child);
  child.on('exit', () => running.delete(child));
  child.on('error', (error) => {
    running.delete(child);
    console.error(`${program}: ${error.message}: make build .bin/influxd`);
    process.exitCode = 1;
  });
  return child;
}

/** ended is the exit code of a process. */
export function ended(child) {
  return new Promise((done) => (child.exitCode ?? child.signalCode) !== null ? done(child.exitCode) : child.on('exit', done));
}

/** stop ends a process and waits for its end. */
export async function stop(child, signal = 'SIGTERM') {
  child.kill(signal);
  await ended(child);
}

/** stopAll ends what was started and goes on still. */
export function stopAll() {
  return Promise.all([...running].map((child) => stop(child)));
}

/** freePort is a port of loopback that nothing listens at. */
export function freePort() {
  return new Promise((done, failed) => {
    const server = createServer().on('error', failed).listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    await stopAll();
    process.exit(1);
  });
}

/** listening waits until a program accepts connections at a port of this machine. */
export async function listening(child, port, patience = 60_000) {
  for (const end = Date.now() + patience; Date.now() < end && child.exitCode === null; ) {
    const open = await new Promise((done) => {
      const socket = createConnection(port, '127.0.0.1', () => (socket.destroy(), done(true))).on('error', () => done(false));
    });
    if (open) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${child.spawnargs.join(' ')} does not listen at port ${port}`);
}

/** influxdb starts an InfluxDB 1.8 on a folder and returns its base URL. */
export async function influxdb(program, folder) {
  const port = await freePort();
  mkdirSync(folder, { recursive: true });
  const config = join(folder, 'influxd.conf');
  writeFileSync(config, `reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = "${join(folder, 'meta')}"
[data]
  dir = "${join(folder, 'data')}"
  wal-dir = "${join(folder, 'wal')}"
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:${port}"
  log-enabled = false
`);
  await listening(start(program, ['-config', config], join(folder, 'influxd.log')), port);
  return `http://127.0.0.1:${port}`;
}

/** ask runs a query and returns its first result's series. */
export async function ask(url, database, query) {
  const answer = await fetch(`${url}/query?db=${database}&epoch=ms`, { method: 'POST', body: new URLSearchParams({ q: query }) });
  const { results, error } = await answer.json();
  if (error ?? results[0].error) throw new Error(`${query}: ${error ?? results[0].error}`);
  return results[0].series ?? [];
}
