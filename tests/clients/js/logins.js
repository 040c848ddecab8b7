// kafkajs logs in as each request says: node logins.js FOLDER (see logins/programs.py).
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { Kafka } = require(path.join(process.argv[2], "node_modules", "kafkajs"));

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
process.env.KAFKAJS_LOG_LEVEL = "nothing"; // Standard output is for answers.
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// begin of settings
function settings(login) {
  const ssl = { ca: [fs.readFileSync(login.authority)] };
  switch (login.mechanism) {
    case "mTLS":
      return { ssl: { ...ssl, cert: fs.readFileSync(login.chain), key: fs.readFileSync(login.key) } };
    case "OAUTHBEARER":
      return { ssl, sasl: { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: login.token }) } };
    default: // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
      return { ssl, sasl: { mechanism: login.mechanism.toLowerCase(), username: login.name, password: login.password } };
  }
}

function connect(login) {
  return new Kafka({ brokers: [login.address], ...settings(login), retry: { retries: 1 } });
}
// end of settings

const acts = {
  async login_write({ login, topic, values }) {
    const producer = connect(login).producer();
    try {
      await producer.connect();
      await producer.send({ topic, messages: values.map((value) => ({ value, partition: 0 })) });
    } finally {
      await producer.disconnect();
    }
    return null;
  },

  async login_read({ login, topic, count }) {
    const consumer = connect(login).consumer({ groupId: topic, maxWaitTimeInMs: 20 });
    const values = [];
    let fault = null;
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      fault = payload.error;
    });
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await consumer.run({ eachMessage: async ({ message }) => void values.push(message.value.toString()) });
      for (let turns = 0; values.length < count && fault === null && turns < 2000; turns += 1) await sleep(10);
    } finally {
      await consumer.disconnect();
    }
    if (fault !== null) throw fault;
    return values;
  },
};

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      answer = { result: await acts[request.act](request) };
    } catch (error) {
      const causes = [];
      for (let one = error; one; one = one.cause) causes.push(String(one.stack || one));
      answer = { error: causes.join("\n") };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

serve();
