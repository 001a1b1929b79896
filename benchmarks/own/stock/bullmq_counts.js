// What BullMQ's getJobCounts() of many queues takes: `bullmq_counts.js URL ROUNDS QUEUES` prints the milliseconds of
// each round as JSON. All queues share one connection, and are asked at once.

const {Queue} = require('bullmq');
const IORedis = require('ioredis');

const [url, rounds, number] = [process.argv[2], +process.argv[3], +process.argv[4]];
const connection = new IORedis(url, {maxRetriesPerRequest: null});
const names = Array.from({length: number}, (_, at) => `queue-${at}`);

(async () => {
  const queues = names.map(name => new Queue(name, {connection, skipMetasUpdate: true}));
  const took = [];
  let counted = 0;
  for (let round = 0; round <= rounds; round++) {
    const began = process.hrtime.bigint();
    const counts = await Promise.all(queues.map(queue => queue.getJobCounts()));
    took.push(Number(process.hrtime.bigint() - began) / 1e6);
    counted = counts.reduce((sum, each) => sum + each.waiting, 0);
  }
  console.log(JSON.stringify({'getJobCounts() of each queue, all at once': {ms: took.slice(1), counted}}));
  process.exit(0);
})();
