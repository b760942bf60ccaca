import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.rocketmq.auth.authentication.model.Subject;
import org.apache.rocketmq.auth.authentication.model.User;
import org.apache.rocketmq.auth.authorization.chain.AclAuthorizationHandler;
import org.apache.rocketmq.auth.authorization.context.DefaultAuthorizationContext;
import org.apache.rocketmq.auth.authorization.exception.AuthorizationException;
import org.apache.rocketmq.auth.authorization.model.Acl;
import org.apache.rocketmq.auth.authorization.model.Resource;
import org.apache.rocketmq.auth.authorization.provider.AuthorizationMetadataProvider;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.broker.auth.converter.AclConverter;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.remoting.protocol.body.AclInfo;

/**
 * What RocketMQ's own evaluator of policies says. A line of input has the policies of one user and some requests:
 * {"policies": [...], "requests": [{"resource": "Topic:a", "actions": ["Pub"], "source": "10.0.0.1"}]}. The line of
 * output has one letter a request: a allowed, d denied by an entry, n no entry matches, e an error.
 */
public class PolicyVerdicts {
    private static Acl acl;

    public static void main(String[] args) throws Exception {
        AuthConfig config = new AuthConfig();
        config.setConfigName("verdicts");
        config.setAuthorizationMetadataProvider(Provider.class.getName());
        AclAuthorizationHandler handler = new AclAuthorizationHandler(config);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject asked = JSON.parseObject(line);
            JSONObject user = new JSONObject();
            user.put("subject", "User:someone");
            user.put("policies", asked.getJSONArray("policies"));
            acl = AclConverter.convertAcl(JSON.parseObject(user.toJSONString(), AclInfo.class));
            StringBuilder verdicts = new StringBuilder();
            JSONArray requests = asked.getJSONArray("requests");
            for (int i = 0; i < requests.size(); i++) {
                verdicts.append(verdict(handler, requests.getJSONObject(i)));
            }
            System.out.println(verdicts);
        }
        System.exit(0);
    }

    private static char verdict(AclAuthorizationHandler handler, JSONObject request) {
        List<Action> actions = new ArrayList<>();
        for (String name : request.getList("actions", String.class)) {
            actions.add(Action.getByName(name));
        }
        try {
            handler.handle(DefaultAuthorizationContext.of(User.of("someone"), Resource.of(request.getString("resource")),
                actions, request.getString("source")), null).join();
            return 'a';
        } catch (Throwable error) {
            String text = String.valueOf(error.getMessage());
            return text.contains("the decision is deny") ? 'd' : text.contains("no matched policies") ? 'n' : 'e';
        }
    }

    public static class Provider implements AuthorizationMetadataProvider {
        public void initialize(AuthConfig config, Supplier<?> metadataService) {
        }

        public void shutdown() {
        }

        public CompletableFuture<Void> createAcl(Acl created) {
            return null;
        }

        public CompletableFuture<Void> deleteAcl(Subject subject) {
            return null;
        }

        public CompletableFuture<Void> updateAcl(Acl updated) {
            return null;
        }

        public CompletableFuture<Acl> getAcl(Subject subject) {
            return CompletableFuture.completedFuture(acl);
        }

        public CompletableFuture<List<Acl>> listAcl(String subjectFilter, String resourceFilter) {
            return null;
        }
    }
}
