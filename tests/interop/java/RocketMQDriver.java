import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Drives the unmodified RocketMQ Java client from the command line; each event is one line of JSON on standard output.
 *
 * <p>The first argument names the deed (produce, recall, fill, pour, consume, lite-pull, pull, survey, transact), pairs of
 * {@code --name value} follow. What pours, consumes or transacts goes on until standard input ends.
 */
public final class RocketMQDriver {
    private static final PrintStream OUT = new PrintStream(System.out, true);
    private final Map<String, String> options = new HashMap<>();

    private RocketMQDriver(String[] args) {
        for (int i = 1; i + 1 < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
    }

    public static void main(String[] args) {
        int status = 0;
        try {
            new RocketMQDriver(args).run(args[0]);
        } catch (Throwable problem) {
            problem.printStackTrace();
            emit("error", "message", String.valueOf(problem));
            status = 1;
        }
        System.exit(status);
    }

    private void run(String deed) throws Exception {
        switch (deed) {
            case "produce": produce(); break;
            case "recall": recall(); break;
            case "fill": fill(); break;
            case "pour": pour(); break;
            case "consume": consume(); break;
            case "lite-pull": litePull(); break;
            case "pull": pullAll(); break;
            case "survey": survey(); break;
            case "transact": transact(); break;
            default: throw new IllegalArgumentException("no such deed: " + deed);
        }
    }

    private String option(String name, String fallback) {
        return options.getOrDefault(name, fallback);
    }

    private String option(String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    private int count() {
        return Integer.parseInt(option("count", "1"));
    }

    private Message message(int index) {
        String[] tags = option("tags", "").split(",", -1);
        byte[] body = (option("prefix") + "-" + index).getBytes(StandardCharsets.UTF_8);
        int size = Integer.parseInt(option("size", "0"));
        if (body.length < size) {
            byte[] padded = new byte[size];
            java.util.Arrays.fill(padded, (byte) '.');
            System.arraycopy(body, 0, padded, 0, body.length);
            body = padded;
        }
        Message message = new Message(option("topic"), tags[index % tags.length], body);
        if (options.containsKey("keys")) {
            message.setKeys(option("keys") + "-" + index);
        }
        if (options.containsKey("delay-level")) {
            message.setDelayTimeLevel(Integer.parseInt(option("delay-level")));
        }
        if (options.containsKey("timer")) {
            setTimer(message, option("timer"),
                Long.parseLong(option("timer-value")) + index * Long.parseLong(option("timer-step", "0")));
        }
        if (options.containsKey("priorities")) {
            setPriority(message, Integer.parseInt(option("priorities").split(",")[index]));
        }
        message.putUserProperty("index", String.valueOf(index));
        return message;
    }

    /** Which a client has since 5.4. */
    private static void setPriority(Message message, int priority) {
        try {
            Message.class.getMethod("setPriority", int.class).invoke(message, priority);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** By one of setDelayTimeSec, setDelayTimeMs and setDeliverTimeMs (of a time from now on), which 4.x does not have. */
    private static void setTimer(Message message, String method, long value) {
        try {
            long given = method.equals("setDeliverTimeMs") ? System.currentTimeMillis() + value : value;
            Message.class.getMethod(method, long.class).invoke(message, given);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** Takes back the messages with these handles; the id of each, or why not. */
    private void recall() throws Exception {
        DefaultMQProducer producer = configured(new DefaultMQProducer(option("group"), hook()));
        producer.start();
        try {
            for (String handle : option("handles").split(",")) {
                try {
                    Object id = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                        .invoke(producer, option("topic"), handle);
                    emit("recalled", "msgId", String.valueOf(id));
                } catch (java.lang.reflect.InvocationTargetException problem) {
                    emit("refused", "message", String.valueOf(problem.getCause().getMessage()));
                }
            }
        } finally {
            producer.shutdown();
        }
    }

    private DefaultMQProducer configured(DefaultMQProducer producer) {
        producer.setNamesrvAddr(option("namesrv"));
        producer.setSendMsgTimeout(10000);
        producer.setMqClientApiTimeout(10000);
        return producer;
    }

    /** Signs as the account of the options; null without one. */
    private RPCHook hook() {
        return options.containsKey("access-key")
            ? new AclClientRPCHook(new SessionCredentials(option("access-key"), option("secret-key"))) : null;
    }

    private void produce() throws Exception {
        DefaultMQProducer producer = configured(new DefaultMQProducer(option("group"), hook()));
        producer.start();
        try {
            switch (option("mode", "sync")) {
                case "sync":
                    for (int i = 0; i < count(); i++) {
                        emitSent(producer.send(message(i)));
                    }
                    break;
                case "async": produceAsync(producer); break;
                case "oneway":
                    for (int i = 0; i < count(); i++) {
                        producer.sendOneway(message(i));
                    }
                    // One-way sends may still wait in the client; a round trip on the same connection shows that
                    // the broker has read them.
                    for (MessageQueue queue : producer.fetchPublishMessageQueues(option("topic"))) {
                        producer.maxOffset(queue);
                    }
                    emit("oneway", "count", String.valueOf(count()));
                    break;
                case "batch":
                    List<Message> batch = new ArrayList<>();
                    for (int i = 0; i < count(); i++) {
                        batch.add(message(i));
                    }
                    emitSent(producer.send(batch));
                    break;
                case "ordered":
                    for (int i = 0; i < count(); i++) {
                        emitSent(producer.send(message(i),
                            (queues, m, shard) -> queues.get((Integer) shard % queues.size()), i % 2));
                    }
                    break;
                default: throw new IllegalArgumentException("no such mode");
            }
        } finally {
            producer.shutdown();
        }
    }

    /** One send after the other with a producer as it is, whatever becomes of them. */
    private void pour() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(option("group"));
        producer.setNamesrvAddr(option("namesrv"));
        producer.start();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException ended) {
                // The end of the input all the same.
            }
        });
        input.start();
        emit("started");
        for (int i = 0; input.isAlive(); i++) {
            long begun = System.nanoTime();
            String broker = "";
            try {
                broker = producer.send(message(i)).getMessageQueue().getBrokerName();
            } catch (Exception problem) {
                emit("failure", "message", String.valueOf(problem));
            }
            emit("poured", "broker", broker, "index", String.valueOf(i),
                "at", String.valueOf(System.currentTimeMillis()),
                "took", String.valueOf((System.nanoTime() - begun) / 1_000_000));
            Thread.sleep(5);
        }
        producer.shutdown();
    }

    private void produceAsync(DefaultMQProducer producer) throws Exception {
        CountDownLatch answered = new CountDownLatch(count());
        for (int i = 0; i < count(); i++) {
            producer.send(message(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    emitSent(result);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable problem) {
                    emit("error", "message", String.valueOf(problem));
                    answered.countDown();
                }
            });
        }
        answered.await();
    }

    /** Messages of each kind, each on a topic of its own; the delayed ones have arrived when this returns. */
    private void fill() throws Exception {
        DefaultMQProducer producer = configured(new DefaultMQProducer(option("group")));
        producer.start();
        try {
            fill(producer, "Plain", "tags", "TagA,TagB");
            fill(producer, "Keyed", "keys", "key-" + option("prefix"));
            fill(producer, "Large", "size", "30000");
            fill(producer, "Delayed", "delay-level", "1");
            List<Message> batch = new ArrayList<>();
            options.put("topic", "Batched");
            for (int i = 0; i < count(); i++) {
                batch.add(message(i));
            }
            emitSent(producer.send(batch));
            for (long arrived = -1; arrived < Long.parseLong(option("delayed-before", "0")) + count();) {
                Thread.sleep(100);
                arrived = 0;
                for (MessageQueue queue : producer.fetchPublishMessageQueues("Delayed")) {
                    arrived += producer.maxOffset(queue);
                }
            }
        } finally {
            producer.shutdown();
        }
    }

    private void fill(DefaultMQProducer producer, String topic, String option, String value) throws Exception {
        options.put("topic", topic);
        options.put(option, value);
        for (int i = 0; i < count(); i++) {
            emitSent(producer.send(message(i)));
        }
        options.remove(option);
    }

    private void consume() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(option("group"), hook(),
            new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(option("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(Integer.parseInt(option("max-reconsume", "16")));
        consumer.setMqClientApiTimeout(10000);
        consumer.setAwaitTerminationMillisWhenShutdown(3000);
        if (options.containsKey("threads")) {
            consumer.setConsumeThreadMin(Integer.parseInt(option("threads")));
            consumer.setConsumeThreadMax(Integer.parseInt(option("threads")));
        }
        if (options.containsKey("broadcast")) {
            consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), "BROADCASTING"));
        }
        if (options.containsKey("server-balance")) {
            // The broker says who consumes what, and whether by pull or by pop; 4.x has no such thing.
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class)
                .invoke(consumer, Long.parseLong(option("invisible", "60000")));
        }
        if (options.containsKey("sql")) {
            consumer.subscribe(option("topic"), MessageSelector.bySql(option("sql")));
        } else {
            consumer.subscribe(option("topic"), option("tags", "*"));
        }
        String failPrefix = options.get("fail-prefix");
        if (options.containsKey("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                received(messages, failPrefix) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                received(messages, failPrefix) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        emit("started");
        untilInputEnds();
        makeOffsetTable(consumer.getOffsetStore());
        consumer.shutdown();
        emit("stopped");
    }

    /**
     * Tells the broker the offset of one queue of several and waits for its answer. RocketMQ makes the table of a
     * group's offsets without a lock, and a leaving consumer tells all of them at once: of two that come first, one may
     * be forgotten. The others are left to the consumer itself.
     */
    private void makeOffsetTable(OffsetStore offsets) throws Exception {
        Map<MessageQueue, Long> table = offsets.cloneOffsetTable(option("topic"));
        if (table.size() > 1) {
            Map.Entry<MessageQueue, Long> first = table.entrySet().iterator().next();
            offsets.updateConsumeOffsetToBroker(first.getKey(), first.getValue(), false);
        }
    }

    private static boolean received(List<MessageExt> messages, String failPrefix) {
        boolean succeeded = true;
        for (MessageExt message : messages) {
            emitMessage(message);
            succeeded &= failPrefix == null
                || !new String(message.getBody(), StandardCharsets.UTF_8).startsWith(failPrefix);
        }
        return succeeded;
    }

    private void litePull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(option("group"));
        consumer.setNamesrvAddr(option("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(option("topic"), option("tags", "*"));
        consumer.start();
        emit("started");
        Thread reading = new Thread(() -> {
            while (true) {
                consumer.poll(1000).forEach(RocketMQDriver::emitMessage);
            }
        });
        reading.setDaemon(true);
        reading.start();
        untilInputEnds();
        consumer.commitSync();
        makeOffsetTable(consumer.getOffsetStore());
        consumer.shutdown();
        emit("stopped");
    }

    /** Reads every queue of the topics from end to end. */
    private void pullAll() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(option("group", "interop-pull"));
        consumer.setNamesrvAddr(option("namesrv"));
        consumer.start();
        try {
            for (String topic : option("topic").split(",")) {
                for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                    pullQueue(consumer, queue);
                }
            }
        } finally {
            consumer.shutdown();
        }
    }

    private static List<MessageExt> pullQueue(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        List<MessageExt> pulled = new ArrayList<>();
        long next = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        emit("queue", "topic", queue.getTopic(), "queueId", String.valueOf(queue.getQueueId()),
            "minOffset", String.valueOf(next), "maxOffset", String.valueOf(end));
        while (next < end) {
            PullResult result = consumer.pull(queue, "*", next, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                result.getMsgFoundList().forEach(RocketMQDriver::emitMessage);
                pulled.addAll(result.getMsgFoundList());
            } else if (result.getNextBeginOffset() <= next) {
                throw new IllegalStateException(queue + " at " + next + ": " + result);
            }
            // Where files were deleted, a broker of 4.9 leads past what is gone, file by file.
            next = result.getNextBeginOffset();
        }
        return pulled;
    }

    /** Reads the topics from end to end, then finds what it read again: by its id, and by its keys. */
    private void survey() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("interop-survey");
        consumer.setNamesrvAddr(option("namesrv"));
        consumer.start();
        try {
            for (String topic : option("topic").split(",")) {
                for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                    for (MessageExt message : pullQueue(consumer, queue)) {
                        String id = ((MessageClientExt) message).getOffsetMsgId();
                        emitMessage("viewed", consumer.viewMessage(topic, id));
                        if (message.getKeys() != null) {
                            consumer.queryMessage(topic, message.getKeys(), 32, 0, Long.MAX_VALUE)
                                .getMessageList().forEach(found -> emitMessage("found", found));
                        }
                    }
                }
            }
        } finally {
            consumer.shutdown();
        }
    }

    /**
     * Sends messages in transactions, after an ordinary one that makes the producer known to the broker. Of message i
     * the local transaction says number i of {@code --says}, and a check number i of {@code --checks}.
     */
    private void transact() throws Exception {
        String[] says = option("says", "UNKNOW").split(",");
        String[] checks = option("checks", "UNKNOW").split(",");
        TransactionMQProducer producer = new TransactionMQProducer(option("group"), hook());
        configured(producer);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(says, message);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                emitMessage("check", message);
                return state(checks, message);
            }
        });
        producer.start();
        producer.send(new Message(option("topic"), "greeting".getBytes(StandardCharsets.UTF_8)));
        for (int i = 0; i < count(); i++) {
            emitSent(producer.sendMessageInTransaction(message(i), null));
        }
        emit("started");
        untilInputEnds();
        producer.shutdown();
        emit("stopped");
    }

    private static LocalTransactionState state(String[] names, Message message) {
        return LocalTransactionState.valueOf(names[Integer.parseInt(message.getUserProperty("index")) % names.length]);
    }

    private static void untilInputEnds() throws Exception {
        while (System.in.read() != -1) {
            continue;
        }
    }

    private static void emitSent(SendResult result) {
        String handle = "";
        try {
            handle = String.valueOf(SendResult.class.getMethod("getRecallHandle").invoke(result));
        } catch (ReflectiveOperationException older) {
            // 4.x has none.
        }
        emit("sent", "recallHandle", handle, "status", result.getSendStatus().name(), "msgId", result.getMsgId(),
            "offsetMsgId", String.valueOf(result.getOffsetMsgId()),
            "queueId", String.valueOf(result.getMessageQueue().getQueueId()),
            "queueOffset", String.valueOf(result.getQueueOffset()));
    }

    private static void emitMessage(MessageExt message) {
        emitMessage("message", message);
    }

    private static void emitMessage(String event, MessageExt message) {
        String uniqueKey = message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> property : new TreeMap<>(message.getProperties()).entrySet()) {
            properties.append(properties.length() == 0 ? "{" : ",");
            properties.append(quoted(property.getKey())).append(':').append(quoted(property.getValue()));
        }
        String offsetMsgId = message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : "";
        emitLine(event, Collections.singletonMap("properties", properties.length() == 0 ? "{}" : properties + "}"),
            "body", new String(message.getBody(), StandardCharsets.UTF_8), "topic", message.getTopic(),
            "tags", String.valueOf(message.getTags()), "keys", String.valueOf(message.getKeys()),
            "msgId", String.valueOf(uniqueKey), "offsetMsgId", String.valueOf(offsetMsgId), "queueId", String.valueOf(message.getQueueId()),
            "queueOffset", String.valueOf(message.getQueueOffset()), "flag", String.valueOf(message.getFlag()),
            "physicalOffset", String.valueOf(message.getCommitLogOffset()),
            "bornTimestamp", String.valueOf(message.getBornTimestamp()),
            "storeTimestamp", String.valueOf(message.getStoreTimestamp()),
            "reconsumeTimes", String.valueOf(message.getReconsumeTimes()));
    }

    private static void emit(String event, String... pairs) {
        emitLine(event, Collections.emptyMap(), pairs);
    }

    private static void emitLine(String event, Map<String, String> raw, String... pairs) {
        StringBuilder line = new StringBuilder("{\"event\":").append(quoted(event));
        for (int i = 0; i < pairs.length; i += 2) {
            line.append(',').append(quoted(pairs[i])).append(':').append(quoted(pairs[i + 1]));
        }
        raw.forEach((name, value) -> line.append(',').append(quoted(name)).append(':').append(value));
        synchronized (OUT) {
            OUT.println(line.append('}'));
        }
    }

    private static String quoted(String text) {
        StringBuilder result = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                result.append(String.format("\\u%04x", (int) c));
            } else {
                result.append(c);
            }
        }
        return result.append('"').toString();
    }
}
