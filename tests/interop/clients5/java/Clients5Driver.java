import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Drives the unmodified RocketMQ 5 client for Java (rocketmq-client-java) from the command line; each event is one line
 * of JSON on standard output.
 *
 * <p>The first argument names the deed (produce, receive, push), pairs of {@code --name value} follow. What receives,
 * pushes or has transactions goes on until standard input ends.
 */
public final class Clients5Driver {
    private static final PrintStream OUT = new PrintStream(System.out, true);
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Map<String, String> options = new HashMap<>();

    private Clients5Driver(String[] args) {
        for (int i = 1; i + 1 < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
    }

    public static void main(String[] args) {
        int status = 0;
        try {
            new Clients5Driver(args).run(args[0]);
        } catch (Throwable problem) {
            problem.printStackTrace();
            say("error", "message", quoted(String.valueOf(problem)));
            status = 1;
        }
        System.exit(status);
    }

    private void run(String deed) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException problem) {
                // The end of the input all the same.
            }
            ended.countDown();
        });
        input.setDaemon(true);
        input.start();
        switch (deed) {
            case "produce": produce(); break;
            case "receive": receive(); break;
            case "push": push(); break;
            default: throw new IllegalArgumentException("no such deed: " + deed);
        }
    }

    private String option(String name, String fallback) {
        return options.getOrDefault(name, fallback);
    }

    private ClientConfiguration configuration() {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(options.get("endpoint"))
            .setRequestTimeout(Duration.ofSeconds(10)).enableSsl(option("tls", "0").equals("1"));
        if (options.containsKey("access-key")) {
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(options.get("access-key"), options.get("secret-key")));
        }
        return builder.build();
    }

    private Map<String, FilterExpression> subscriptions() {
        FilterExpression expression = options.containsKey("sql")
            ? new FilterExpression(options.get("sql"), FilterExpressionType.SQL92)
            : new FilterExpression(option("tag", "*"), FilterExpressionType.TAG);
        return Collections.singletonMap(options.get("topic"), expression);
    }

    private Message message(int index, long due) {
        MessageBuilder builder = provider.newMessageBuilder().setTopic(options.get("topic"))
            .setBody((options.get("prefix") + "-" + index).getBytes(StandardCharsets.UTF_8))
            .addProperty("index", String.valueOf(index));
        if (options.containsKey("tags")) {
            String[] tags = options.get("tags").split(",");
            builder.setTag(tags[index % tags.length]);
        }
        if (options.get("kind").equals("fifo")) {
            String[] groups = options.get("message-groups").split(",");
            builder.setMessageGroup(groups[index % groups.length]);
        }
        if (options.get("kind").equals("priority")) {
            builder.setPriority(Integer.parseInt(options.get("priorities").split(",")[index]));
        }
        if (due > 0) {
            builder.setDeliveryTimestamp(due);
        }
        return builder.build();
    }

    private void produce() throws Exception {
        String kind = options.get("kind");
        Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration())
            .setTopics(options.get("topic"))
            .setTransactionChecker(asked -> {
                say("checked", "body", quoted(text(asked)));
                return TransactionResolution.COMMIT;
            }).build();
        say("started");
        String[] ends = option("ends", "").split(",");
        for (int index = 0; index < Integer.parseInt(options.get("count")); index++) {
            long due = kind.equals("delay") ? System.currentTimeMillis() + Long.parseLong(options.get("delay-ms")) : 0;
            Message message = message(index, due);
            String body = quoted(options.get("prefix") + "-" + index);
            Transaction transaction = kind.equals("transaction") ? producer.beginTransaction() : null;
            SendReceipt receipt = transaction == null ? producer.send(message) : producer.send(message, transaction);
            say("sent", "body", body, "id", quoted(receipt.getMessageId().toString()), "due", String.valueOf(due));
            if (option("recall", "0").equals("1")) {
                producer.recallMessage(options.get("topic"), receipt.getRecallHandle());
                say("recalled", "body", body);
            }
            if (transaction != null && ends[index].equals("commit")) {
                transaction.commit();
            } else if (transaction != null && ends[index].equals("rollback")) {
                transaction.rollback();
            }
        }
        if (kind.equals("transaction")) {
            ended.await();
        }
        producer.close();
    }

    private void receive() throws Exception {
        SimpleConsumer consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration())
            .setConsumerGroup(options.get("group")).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(subscriptions()).build();
        say("started");
        Duration invisible = Duration.ofMillis(Long.parseLong(option("invisible-ms", "30000")));
        while (ended.getCount() > 0) {
            for (MessageView got : consumer.receive(Integer.parseInt(option("at-once", "16")), invisible)) {
                sayMessage(got);
                if (options.containsKey("change-ms") && got.getDeliveryAttempt() == 1) {
                    consumer.changeInvisibleDuration(got, Duration.ofMillis(Long.parseLong(options.get("change-ms"))));
                    say("changed", "body", quoted(text(got)));
                } else {
                    consumer.ack(got);
                    say("acked", "body", quoted(text(got)));
                }
            }
        }
        consumer.close();
    }

    private void push() throws Exception {
        int fail = Integer.parseInt(option("fail", "0"));   // attempts of a message that fail; -1 fails them all
        PushConsumer consumer = provider.newPushConsumerBuilder().setClientConfiguration(configuration())
            .setConsumerGroup(options.get("group")).setSubscriptionExpressions(subscriptions())
            .setMessageListener(got -> {
                sayMessage(got);
                return fail < 0 || got.getDeliveryAttempt() <= fail ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
        say("started");
        ended.await();
        consumer.close();
    }

    private static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody().duplicate()).toString();
    }

    private static void sayMessage(MessageView got) {
        say("message", "body", quoted(text(got)), "id", quoted(got.getMessageId().toString()),
            "tag", got.getTag().map(Clients5Driver::quoted).orElse("null"),
            "group", got.getMessageGroup().map(Clients5Driver::quoted).orElse("null"),
            "priority", got.getPriority().map(String::valueOf).orElse("null"),
            "attempt", String.valueOf(got.getDeliveryAttempt()));
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    /** One event; the values are JSON already. */
    private static synchronized void say(String event, String... namesAndValues) {
        StringBuilder line = new StringBuilder("{\"event\": " + quoted(event) + ", \"at\": " + System.currentTimeMillis());
        for (int i = 0; i + 1 < namesAndValues.length; i += 2) {
            line.append(", ").append(quoted(namesAndValues[i])).append(": ").append(namesAndValues[i + 1]);
        }
        OUT.println(line.append("}"));
    }
}
