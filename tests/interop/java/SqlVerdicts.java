import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What RocketMQ's own evaluator says. Lines of input, fields apart by U+001F: "M" and names and values of a message's
 * properties; "E" and an expression, answered by a line with one letter a message: 1 taken, 0 not, e an error that
 * the broker takes for not; or p: the expression is refused.
 */
public class SqlVerdicts {
    public static void main(String[] args) throws Exception {
        List<Map<String, String>> messages = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split("\u001f", -1);
            if (fields[0].equals("M")) {
                Map<String, String> properties = new HashMap<>();
                for (int i = 1; i + 1 < fields.length; i += 2) {
                    properties.put(fields[i], fields[i + 1]);
                }
                messages.add(properties);
            } else {
                System.out.println(verdicts(fields[1].replace('\u001e', '\n'), messages));
            }
        }
    }

    private static String verdicts(String text, List<Map<String, String>> messages) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable e) {
            return "p";
        }
        StringBuilder verdicts = new StringBuilder();
        for (Map<String, String> properties : messages) {
            verdicts.append(verdict(expression, properties));
        }
        return verdicts.toString();
    }

    private static char verdict(Expression expression, Map<String, String> properties) {
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                public Object get(String name) {
                    return properties.get(name);
                }

                public Map<String, Object> keyValues() {
                    return null;
                }
            });
            return value instanceof Boolean && (Boolean) value ? '1' : '0';
        } catch (Throwable e) {
            return 'e';
        }
    }
}
