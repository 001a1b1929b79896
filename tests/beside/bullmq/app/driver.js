// Stock BullMQ, as its own API has it: a JSON list [name, arguments] per line in, a JSON document per line out. Run as
// `node driver.js URL`; NODE_PATH says where BullMQ and ioredis are.
const {FlowProducer, Queue} = require('bullmq');
const {version} = require('bullmq/package.json');
const IORedis = require('ioredis');

const connection = new IORedis(process.argv[2], {maxRetriesPerRequest: null});
const queues = {};
const of = name => (queues[name] ??= new Queue(name, {connection}));

// Each is a command.
const commands = {
  // BullMQ's.
  version: async () => version,

  // `Queue.add`; gives the id.
  add: async ({queue, name, data, opts}) => (await of(queue).add(name, data, opts)).id,

  // `Queue.addBulk` of rows [name, data, options].
  many: async ({queue, rows}) => {
    await of(queue).addBulk(rows.map(([name, data, opts]) => ({name, data, opts})));
  },

  // `FlowProducer.add` of a parent with its children.
  flow: async ({tree}) => {
    const producer = new FlowProducer({connection});
    const made = await producer.add(tree);
    await producer.close();
    return made.job.id;
  },

  counts: async ({queue}) => of(queue).getJobCounts(),

  // What BullMQ knows of a job; null where it is gone.
  job: async ({queue, id}) => {
    const job = await of(queue).getJob(id);
    if (!job) return null;
    const state = await job.getState();
    const {name, data, opts, returnvalue, failedReason, attemptsMade, stacktrace, priority, delay, timestamp} = job;
    return {state, name, data, opts, returnvalue, failedReason, attemptsMade, stacktrace, priority, delay, timestamp};
  },

  // The state of each.
  states: async ({queue, ids}) => {
    const found = {};
    for (const id of ids) found[id] = await of(queue).getJobState(id);
    return found;
  },

  // Ids of a state, in the order of the API.
  ids: async ({queue, state, first}) => (await of(queue).getJobs([state], 0, -1, first ?? true)).map(job => job && job.id),

  // The stock verbs of a job: retry, promote, remove, …
  act: async ({queue, id, verb, words}) => {
    await (await of(queue).getJob(id))[verb](...(words ?? []));
  },

  // The stock verbs of a queue: pause, resume, …
  whole: async ({queue, verb, words}) => of(queue)[verb](...(words ?? [])),

  // `Queue.upsertJobScheduler`.
  schedule: async ({queue, id, every, name, data}) => {
    await of(queue).upsertJobScheduler(id, every, {name, data});
  },

  // The ids of the job schedulers.
  schedulers: async ({queue}) => (await of(queue).getJobSchedulers()).map(each => each.key),

  // `Queue.getMetrics`, without waiting for the end of the minute.
  metrics: async ({queue, type}) => of(queue).getMetrics(type),

  // The names of the workers.
  workers: async ({queue}) => (await of(queue).getWorkers()).map(each => each.rawname ?? each.name),
};

const lines = require('readline').createInterface({input: process.stdin});
(async () => {
  for await (const line of lines) {
    const [name, options] = JSON.parse(line);
    let answer;
    try {
      answer = {value: (await commands[name](options)) ?? null};
    } catch (error) {
      answer = {error: String((error && error.stack) || error)};
    }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
  process.exit(0);
})();
