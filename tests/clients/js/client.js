// kafkajs behind one JSON object per line: node client.js FOLDER ADDRESS (see remote.py).
"use strict";

const path = require("path");
const readline = require("readline");
const { Kafka, CompressionTypes, logLevel } = require(path.join(process.argv[2], "node_modules", "kafkajs"));

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const kafka = new Kafka({ brokers: [process.argv[3]], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20 } });
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
const members = new Map();
const transactors = new Map();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function administer(work) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

// A consumer that gathers what it gets; kafkajs has consumers in groups only.
async function follow(group, topic, autoCommit) {
  const consumer = kafka.consumer({ groupId: group, heartbeatInterval: 50, maxWaitTimeInMs: 20 });
  const member = { consumer, topic, assigned: [], values: [], delivered: new Map() };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = payload.memberAssignment[topic] || [];
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit,
    eachMessage: async ({ partition, message }) => {
      member.values.push({ partition, offset: Number(message.offset), value: message.value.toString() });
      member.delivered.set(partition, Number(message.offset) + 1);
    },
  });
  return member;
}

const acts = {
  create: ({ topic, partitions }) =>
    administer((admin) => admin.createTopics({ topics: [{ topic, numPartitions: partitions }], waitForLeaders: true })),

  describe: ({ topic }) =>
    administer(async (admin) => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length),

  delete: ({ topic }) => administer((admin) => admin.deleteTopics({ topics: [topic] })),

  async init({ member, transactional_id, timeout_ms }) {
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      transactionalId: transactional_id,
      transactionTimeout: timeout_ms,
      retry: { retries: 2, initialRetryTime: 20 },
    });
    await producer.connect();
    // kafkajs asks for its epoch with the first transaction; the others ask when they start.
    const first = await producer.transaction();
    await first.abort();
    transactors.set(member, { producer, transaction: null });
  },

  async begin({ member }) {
    const transactor = transactors.get(member);
    transactor.transaction = await transactor.producer.transaction();
  },

  send: ({ member, topic, value }) =>
    transactors.get(member).transaction.send({ topic, messages: [{ value, partition: 0 }] }),

  send_offset: ({ member, group, topic, offset }) =>
    transactors.get(member).transaction.sendOffsets({
      consumerGroupId: group,
      topics: [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }],
    }),

  commit_transaction: ({ member }) => transactors.get(member).transaction.commit(),

  abort_transaction: ({ member }) => transactors.get(member).transaction.abort(),

  async close_transactor({ member }) {
    await transactors.get(member).producer.disconnect();
    transactors.delete(member);
  },

  async produce({ topic, values, codec, acks }) {
    const producer = kafka.producer();
    await producer.connect();
    const messages = values.map((value) => ({ value, partition: 0 }));
    await producer.send({ topic, messages, acks: acks === "all" ? -1 : Number(acks), compression: codecs[codec] });
    await producer.disconnect();
  },

  // The nearest to an assignment that kafkajs has: a group of one, with a start offset.
  async read({ topic, offset, count }) {
    const member = await follow(`read-${topic}-${offset}`, topic, false);
    member.consumer.seek({ topic, partition: 0, offset: String(offset) });
    const found = () => member.values.filter((one) => one.partition === 0 && one.offset >= offset);
    for (let turns = 0; found().length < count && turns < 2000; turns += 1) await sleep(10);
    await member.consumer.disconnect();
    return [...new Map(found().map((one) => [one.offset, one.value])).values()];
  },

  offset_at: ({ topic, timestamp }) =>
    administer(async (admin) => {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp);
      return Number(found.find((one) => one.partition === 0).offset);
    }),

  async join({ member, group, topic }) {
    // Joining may wait for the others, who work meanwhile.
    members.set(member, await follow(group, topic, false));
  },

  async pump({ member }) {
    await sleep(20);
    const one = members.get(member);
    return { assigned: one.assigned, values: one.values.splice(0).map((got) => got.value) };
  },

  async commit({ member }) {
    const { consumer, topic, delivered } = members.get(member);
    const offsets = [...delivered].map(([partition, offset]) => ({ topic, partition, offset: String(offset) }));
    await consumer.commitOffsets(offsets);
  },

  leave: ({ member }) => members.get(member).consumer.disconnect(),
};

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      const result = await acts[request.act](request);
      answer = { result: result === undefined ? null : result };
    } catch (error) {
      answer = { error: String(error.stack || error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

serve();
