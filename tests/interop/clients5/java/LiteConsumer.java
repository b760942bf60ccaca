import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;

/** Builds a consumer of lite topics, and prints why it could not: ENDPOINT TOPIC. */
public class LiteConsumer {
    public static void main(String[] arguments) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0]).enableSsl(false).build();
        try {
            provider.newLitePushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("lite-group")
                .bindTopic(arguments[1]).setMessageListener(message -> ConsumeResult.SUCCESS).build();
            System.out.println("built");
        } catch (Throwable error) {
            for (Throwable each = error; each != null; each = each.getCause()) {
                System.out.println(each);
            }
        }
        System.exit(0);
    }
}
