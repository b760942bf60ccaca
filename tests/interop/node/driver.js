// Drives the unmodified npm package ali-ons from the command line; each event is one line of JSON on standard output.
// The first argument names the deed (produce, consume); pairs of --name value follow. consume goes on until standard
// input ends.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const [, , deed, ...rest] = process.argv;
const options = { mode: 'sync', count: '1', 'max-reconsume': '16', tags: '' };
for (let i = 0; i + 1 < rest.length; i += 2) options[rest[i].slice(2)] = rest[i + 1];
// Only a client that asks Aliyun for its name servers needs HTTP; ours are given.
const httpclient = { request() { throw new Error('this test uses no HTTP'); } };
const quiet = { info() {}, debug() {}, warn: console.error, error: console.error };

function emit(event, fields) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
}

function message(index) {
  const tags = options.tags.split(',');
  const result = new Message(options.topic, tags[index % tags.length], `${options.prefix}-${index}`);
  if (options.keys) result.keys = [`${options.keys}-${index}`];
  result.properties.index = String(index);
  return result;
}

async function send(producer, index) {
  const result = await producer.send(message(index));
  emit('sent', {
    status: result.sendStatus, msgId: result.msgId, offsetMsgId: String(result.offsetMsgId),
    queueId: String(result.messageQueue.queueId), queueOffset: String(result.queueOffset),
  });
}

async function produce() {
  const producer = new Producer({
    nameSrv: options.namesrv, producerGroup: options.group, httpclient, logger: quiet, sendMsgTimeout: 10000,
  });
  producer.on('error', problem => emit('error', { message: String(problem) }));
  await producer.ready();
  const indexes = [...Array(Number(options.count)).keys()];
  if (options.mode === 'async') {
    await Promise.all(indexes.map(index => send(producer, index)));
  } else {
    for (const index of indexes) await send(producer, index);
  }
  await producer.close();
}

async function consume() {
  const consumer = new Consumer({
    nameSrv: options.namesrv, consumerGroup: options.group, httpclient, logger: quiet,
    maxReconsumeTimes: Number(options['max-reconsume']),
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST',
  });
  consumer.on('error', problem => console.error(problem));
  consumer.subscribe(options.topic, options.tags || '*', async received => {
    const body = received.body.toString();
    emit('message', {
      body, topic: received.topic, tags: String(received.tags), keys: String(received.keys), msgId: received.msgId,
      queueId: String(received.queueId), queueOffset: String(received.queueOffset),
      reconsumeTimes: String(received.reconsumeTimes),
    });
    // Returning ACTION_RETRY would be lost for messages of the retry topic; an error is not.
    if (options['fail-prefix'] && body.startsWith(options['fail-prefix'])) throw new Error(`refused ${body}`);
  });
  await consumer.ready();
  emit('started', {});
  process.stdin.resume();
  await new Promise(resolve => process.stdin.on('end', resolve));
  await consumer.close();
  emit('stopped', {});
}

({ produce, consume })[deed]().then(
  () => process.exit(0),
  problem => {
    console.error(problem);
    emit('error', { message: String(problem) });
    process.exit(1);
  });
