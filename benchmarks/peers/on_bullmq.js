// BullMQ over ioredis: at its best fifty jobs at once, by default one. Says and measures what `protocol.py` says;
// finished jobs are dropped, as those of the other peers are.

const {fork} = require('node:child_process');
const {Queue, Worker} = require('bullmq');
const Redis = require('ioredis');

const BULK = 1000, BODY_LETTERS = 200, EVERY_MS = 25, DELAY_MS = 1000, SETTLE_MS = 500, IDLE_MS = 10000, IDLE_SETTLE_MS = 6000;
const PATIENCE_MS = 180000, LOOK_JOBS = 10, LOOKS = 21;
const OPTIONS = {removeOnComplete: true, removeOnFail: true};
const CONCURRENCY = {best: 50, default: 1};

const argument = (name, otherwise) => process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise;
const url = new URL(argument('--url'));
const connection = {host: url.hostname, port: +url.port, maxRetriesPerRequest: null};
const setting = argument('--setting', 'best');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const nowNs = () => process.hrtime.bigint(); // CLOCK_MONOTONIC, the same in every process
const body = (atNs = 0n) => String(atNs).padStart(20, '0').padEnd(BODY_LETTERS, 'x');

const info = async (redis, section) => Object.fromEntries(
  (await redis.info(section)).split('\r\n').filter((line) => line.includes(':')).map((line) => line.split(/:(.*)/s)));

async function spent(redis) {
  const [cpu, stats, commands] = [await info(redis, 'cpu'), await info(redis, 'stats'), await info(redis, 'commandstats')];
  const calls = Object.entries(commands).filter(([name]) => name !== 'cmdstat_info').map(([, line]) => +/calls=(\d+)/.exec(line)[1]);
  return {
    server_us: (+cpu.used_cpu_user + +cpu.used_cpu_sys) * 1e6,
    commands: calls.reduce((sum, each) => sum + each, 0),
    trips: +(stats.total_reads_processed || 0),
  };
}

const difference = (before, after) => Object.fromEntries(Object.keys(before).map((name) => [name, after[name] - before[name]]));

async function one_by_one(queue, bodies) {
  for (const text of bodies) await queue.add('run', text, OPTIONS);
}

async function bulk(queue, bodies) {
  for (let at = 0; at < bodies.length; at += BULK)
    await queue.addBulk(bodies.slice(at, at + BULK).map((data) => ({name: 'run', data, opts: OPTIONS})));
}

async function timed(put, queue, redis, number) {
  await put(queue, [body()]);
  const bodies = Array(number).fill(body()), before = await spent(redis), began = nowNs();
  await put(queue, bodies);
  const seconds = Number(nowNs() - began) / 1e9;
  return {jobs: number, seconds, ...difference(before, await spent(redis))};
}

// The worker's process: it sends what its jobs say to its parent.
function work(wanted) {
  let count = 0;
  const run = async (job) => {
    const at = BigInt(job.data.slice(0, 20));
    if (at) return process.send(Number(nowNs() - at));
    count += 1;
    if (count === 1 || count === wanted) process.send(Number(nowNs()));
  };
  new Worker('bench', run, {connection, concurrency: CONCURRENCY[setting]});
  process.on('disconnect', () => process.exit(0));
}

function worker(wanted = 0) {
  const child = fork(__filename, [...process.argv.slice(2), '--work', String(wanted)]), said = [], waiting = [];
  child.on('message', (value) => waiting.length ? waiting.shift()(value) : said.push(value));
  const next = () => said.length ? Promise.resolve(said.shift()) : new Promise((resolve) => waiting.push(resolve));
  return {next, end: () => child.kill('SIGKILL')};
}

async function drain(queue, redis, number) {
  const before = await spent(redis), child = worker(number);
  const first = await child.next(), last = await child.next();
  await pause(SETTLE_MS);
  const after = await spent(redis);
  child.end();
  return {jobs: number, seconds: (last - first) / 1e9, ...difference(before, after)};
}

async function measured(queue, number, send) {
  const child = worker(), found = [];
  await queue.add('run', body(1n), OPTIONS);
  await child.next();
  await pause(SETTLE_MS);
  for (let i = 0; i < number; i++) {
    await pause(EVERY_MS * (0.8 + 0.4 * Math.random()));
    await send();
    if (send.name === 'now') found.push(await child.next() / 1e6); // one at a time; later ones come when they are due
  }
  while (found.length < number) found.push(await child.next() / 1e6);
  child.end();
  return found.sort((a, b) => a - b);
}

const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

const COMMANDS = {
  enqueue: (queue, redis, number) => timed(one_by_one, queue, redis, number),
  bulk: (queue, redis, number) => timed(bulk, queue, redis, number),
  drain,
  latency: async (queue, redis, number) => {
    const ms = await measured(queue, number, async function now() { await queue.add('run', body(nowNs()), OPTIONS); });
    return {jobs: number, p50_ms: median(ms), p99_ms: ms[Math.floor(number * 0.99)], worst_ms: ms[number - 1]};
  },
  delayed: async (queue, redis, number) => {
    const ms = await measured(queue, number, async function later() {
      await queue.add('run', body(nowNs() + BigInt(DELAY_MS * 1e6)), {...OPTIONS, delay: DELAY_MS});
    });
    return {jobs: number, median_ms: median(ms), worst_ms: ms[number - 1], first_ms: ms[0]};
  },
  idle: async (queue, redis, number) => {
    for (let i = 0; i < number; i++) new Worker('bench', async () => {}, {connection, concurrency: CONCURRENCY[setting]});
    await pause(IDLE_SETTLE_MS);
    const before = await spent(redis);
    await pause(IDLE_MS);
    const found = difference(before, await spent(redis)), seconds = IDLE_MS / 1000;
    return {workers: number, per_second: found.commands / seconds, trips_per_second: found.trips / seconds, server_us_per_second: found.server_us / seconds};
  },
  look: async (queue, redis, number) => { // what bull-board asks of each queue
    const queues = Array.from({length: number}, (_, at) => new Queue(`look-${at}`, {connection: redis}));
    for (const each of queues) await each.addBulk(Array(LOOK_JOBS).fill({name: 'run', data: '', opts: OPTIONS}));
    const look = async () => (await Promise.all(queues.map((each) => each.getJobCounts()))).reduce((sum, each) => sum + each.waiting, 0);
    let found = await look();
    const took = [], before = await spent(redis);
    for (let i = 0; i < LOOKS; i++) {
      const began = nowNs();
      found = await look();
      took.push(Number(nowNs() - began) / 1e6);
    }
    if (found !== number * LOOK_JOBS) return {none: `it counted ${found} jobs of ${number * LOOK_JOBS}`};
    const all = Object.entries(difference(before, await spent(redis))).map(([name, each]) => [name, each / LOOKS]);
    return {queues: number, ms: median(took.sort((a, b) => a - b)), ...Object.fromEntries(all)};
  },
  memory: async (queue, redis, number) => {
    await bulk(queue, [body()]);
    await redis.flushall('SYNC');
    const before = +(await info(redis, 'memory')).used_memory;
    await bulk(queue, Array(number).fill(body()));
    await pause(SETTLE_MS);
    return {jobs: number, bytes: (+(await info(redis, 'memory')).used_memory - before) / number};
  },
};

async function main() {
  const [command, number] = process.argv.filter((word, at) => at > 1 && !word.startsWith('--') && !process.argv[at - 1].startsWith('--'));
  setTimeout(() => { console.log(JSON.stringify({none: `not done within ${PATIENCE_MS / 1000} s`})); process.exit(0); }, PATIENCE_MS).unref();
  const redis = new Redis(connection), queue = new Queue('bench', {connection});
  await queue.waitUntilReady();
  console.log(JSON.stringify(await COMMANDS[command](queue, redis, +number)));
  process.exit(0);
}

if (process.argv.includes('--work')) work(+argument('--work'));
else main();
