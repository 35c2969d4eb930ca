// Fills an InfluxDB by real runs of Spate's programs: node fill.mjs ROOT FOLDER, where ROOT is that of the repository, with bin/ and .bin/influxd
// built, and FOLDER keeps the database. Everything is on loopback.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ask, ended, freePort, influxdb, listening, start, stop, stopAll } from './servers.mjs';

const [root, folder] = process.argv.slice(2).map((path) => resolve(path));
const bin = (name) => join(root, 'bin', name);
const log = (name) => join(folder, `${name}.log`);

/** The runs: the same plan before and after a change of the engines. */
const runs = [
  { plan: 'engines-before', target: 'engines', model: ['--decode-step=7ms', '--set=decode_step_per_request=250us', '--set=prefill_tokens_per_second=25000', '--max-running=24'] },
  { plan: 'engines-after', target: 'engines', model: ['--decode-step=5ms', '--set=decode_step_per_request=150us', '--set=prefill_tokens_per_second=40000', '--max-running=48'] },
];

const faults = ['--fault=500=0.002', '--fault=429=0.0015', '--fault=cut=0.0015'];
const team = [['eu-1', 'eu'], ['eu-2', 'eu'], ['eu-3', 'eu'], ['us-1', 'us'], ['us-2', 'us']];

/** The agent that is lost, in which stage of the last run, and how long it is away. */
const loss = { agent: 'eu-2', stage: 17, away: 12_000 };

function agent(name, region, coordinator) {
  return start(bin('spate-agent'), [`--name=${name}`, `--region=${region}`, `--coordinator=${coordinator}`, `--dataset-dir=${join(folder, 'datasets', name)}`], log(name));
}

/** until waits for an answer of the database. */
async function until(url, query, child) {
  while (child.exitCode === null) {
    const series = await ask(url, 'spate', query);
    if (series.length > 0) return;
    await new Promise((done) => setTimeout(done, 200));
  }
  throw new Error(`the run ended before there was an answer to ${query}`);
}

/** one does a run and loses an agent in it if asked to. */
async function one(url, run, coordinator, agents, lose) {
  const ports = [await freePort(), await freePort()];
  const endpoints = ports.map((port) => `127.0.0.1:${port}`);
  const simulator = start(bin('spate'), ['simulate', `--listen=${endpoints}`, ...run.model, ...faults], log(run.plan + '-simulator'));
  await listening(simulator, ports[1]);
  const plan = join(folder, `${run.plan}.yaml`);
  writeFileSync(plan, readFileSync(new URL('plan.yaml', import.meta.url), 'utf8').replace('PLAN_NAME', run.plan).replace('TARGET_NAME', run.target)
    .replace('ENDPOINTS', JSON.stringify(endpoints.map((address) => `http://${address}`))));
  const child = start(bin('spate'), ['run', plan, `--coordinator=${coordinator}`, `--min-agents=${team.length}`, `--out=${join(folder, run.plan)}`], log(run.plan));
  if (lose) {
    await until(url, `SELECT "text" FROM "spate_event" WHERE "plan" = '${run.plan}' AND "kind" = 'stage_began' AND "stage" = '${loss.stage}'`, child);
    await new Promise((done) => setTimeout(done, 1500));
    await stop(agents.get(loss.agent), 'SIGKILL');
    await new Promise((done) => setTimeout(done, loss.away));
    agents.set(loss.agent, agent(loss.agent, 'eu', coordinator));
  }
  const code = await ended(child);
  if (code !== (lose ? 3 : 0)) throw new Error(`the run of ${run.plan} ended with ${code}: see ${log(run.plan)}`);
  await stop(simulator);
}

async function fill() {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const url = await influxdb(join(root, '.bin', 'influxd'), join(folder, 'influxdb'));
  await ask(url, '', 'CREATE DATABASE "spate"');
  const port = await freePort(), coordinator = `127.0.0.1:${port}`;
  await listening(start(bin('spate-coordinator'), [`--listen=${coordinator}`, '--no-gossip', `--data-dir=${join(folder, 'runs')}`, `--sink=influx+${url}?bucket=spate`], log('coordinator')), port);
  const agents = new Map(team.map(([name, region]) => [name, agent(name, region, coordinator)]));
  for (const run of runs) await one(url, run, coordinator, agents, run === runs.at(-1));
}

try {
  await fill();
} finally {
  await stopAll();
}
