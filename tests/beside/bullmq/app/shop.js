// The application whose jobs stock workers run, BullMQ 5 as well as 6: each job notes in the list `beside:ran` who ran
// it. Run as `node shop.js URL QUEUE NAME CONCURRENCY [MINUTES OF METRICS]`; NODE_PATH says where BullMQ and
// ioredis are.
const {Worker} = require('bullmq');
const IORedis = require('ioredis');

const [url, queue, name, concurrency, minutes] = process.argv.slice(2);
const client = new IORedis(url, {maxRetriesPerRequest: null});
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

const jobs = {
  // Done at once, or after so many ms.
  work: async job => {
    await pause(job.data.ms ?? 0);
    return job.data;
  },
  // Fails as long as `beside:fixed` is not there.
  confirm: async job => {
    if (!(await client.exists('beside:fixed'))) throw new TypeError(`no such order: ${job.data.order}`);
    return job.data.order;
  },
  // Fails the first time that this job is run.
  flaky: async job => {
    if ((await client.incr(`beside:times:${job.id}`)) === 1) throw new Error(`order ${job.data.order}: socket hang up`);
  },
  // Runs until the key is there, a minute at most.
  hold: async job => {
    const deadline = Date.now() + 60_000;
    while (!(await client.exists(job.data.key)) && Date.now() < deadline) await pause(20);
  },
};

const worker = new Worker(
  queue,
  async job => {
    await client.rpush('beside:ran', JSON.stringify([job.id, name, process.pid]));
    return jobs[job.name] ? jobs[job.name](job) : null;
  },
  {
    connection: client,
    name,
    concurrency: Number(concurrency),
    ...(minutes ? {metrics: {maxDataPoints: Number(minutes)}} : {}),
  },
);
worker.on('error', error => console.error(error));
process.on('SIGTERM', async () => {
  await worker.close();
  process.exit(0);
});
