'use strict';
// Drives npm's rocketmq-client-nodejs, the official RocketMQ 5 client; each event is one line of JSON.
// The first argument names the deed (produce, receive, push), pairs of `--name value` follow. What receives, pushes or
// has transactions goes on until standard input ends.

const { Producer, SimpleConsumer, PushConsumer, ConsumeResult, FilterExpression } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const options = {};
for (let i = 3; i + 1 < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];

let inputEnded = false;
const ended = new Promise(resolve => process.stdin.on('end', () => { inputEnded = true; resolve(); }).resume());

// Written at once and not by the queue of a pipe: process.exit does not wait for that.
function say(event, values) {
  require('fs').writeSync(1, JSON.stringify({ event, at: Date.now(), ...values }) + '\n');
}

function sayMessage(got) {
  say('message', { body: got.body.toString(), id: got.messageId, tag: got.tag || null,
    group: got.messageGroup || null, attempt: got.deliveryAttempt });
}

const quiet = { debug() {}, info() {}, warn: (...words) => console.error(...words), error: (...words) => console.error(...words) };
const common = { endpoints: options.endpoint, namespace: '', requestTimeout: 10000, logger: quiet,
  sslEnabled: options.tls === '1' };
if (options['access-key']) {
  common.sessionCredentials = { accessKey: options['access-key'], accessSecret: options['secret-key'] };
}

function subscriptions() {
  const expression = options.sql ? new FilterExpression(options.sql, FilterType.SQL)
    : new FilterExpression(options.tag || '*');
  return new Map([[options.topic, expression]]);
}

function message(index) {
  const made = { topic: options.topic, body: Buffer.from(`${options.prefix}-${index}`),
    properties: new Map([['index', String(index)]]) };
  if (options.tags) made.tag = options.tags.split(',')[index % options.tags.split(',').length];
  if (options.kind === 'fifo') {
    const groups = options['message-groups'].split(',');
    made.messageGroup = groups[index % groups.length];
  }
  if (options.kind === 'delay') made.deliveryTimestamp = new Date(Date.now() + Number(options['delay-ms']));
  return made;
}

async function produce() {
  const checker = { async check(asked) {
    say('checked', { body: asked.body.toString() });
    return TransactionResolution.COMMIT;
  } };
  const producer = new Producer({ ...common, topic: options.topic, checker });
  await producer.startup();
  say('started');
  const ends = (options.ends || '').split(',');
  for (let index = 0; index < Number(options.count); index++) {
    const made = message(index);
    const body = made.body.toString();
    const transaction = options.kind === 'transaction' ? producer.beginTransaction() : undefined;
    const receipt = await producer.send(made, transaction);
    say('sent', { body, id: receipt.messageId, due: made.deliveryTimestamp ? made.deliveryTimestamp.getTime() : 0 });
    if (options.recall === '1') {
      await producer.recallMessage(options.topic, receipt.recallHandle);
      say('recalled', { body });
    }
    if (transaction && ends[index] !== 'none') await transaction[ends[index]]();
  }
  if (options.kind === 'transaction') await ended;
  await producer.shutdown();
}

async function receive() {
  const consumer = new SimpleConsumer({ ...common, consumerGroup: options.group, subscriptions: subscriptions(),
    awaitDuration: 5000 });
  await consumer.startup();
  say('started');
  while (!inputEnded) {
    for (const got of await consumer.receive(16, Number(options['invisible-ms'] || 30000))) {
      sayMessage(got);
      const body = got.body.toString();
      if (options['change-ms'] && got.deliveryAttempt === 1) {
        await consumer.changeInvisibleDuration(got, Number(options['change-ms']));
        say('changed', { body });
      } else {
        await consumer.ack(got);
        say('acked', { body });
      }
    }
  }
  await consumer.shutdown();
}

async function push() {
  const fail = Number(options.fail || 0);       // attempts of a message that fail; -1 fails them all
  const messageListener = { async consume(got) {
    sayMessage(got);
    return fail < 0 || got.deliveryAttempt <= fail ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  } };
  const consumer = new PushConsumer({ ...common, consumerGroup: options.group, subscriptions: subscriptions(),
    messageListener });
  await consumer.startup();
  say('started');
  await ended;
  await consumer.shutdown();
}

({ produce, receive, push })[process.argv[2]]().then(() => process.exit(0), problem => {
  say('error', { message: String(problem) });
  console.error(problem);
  process.exit(1);
});
