import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after another in one process: each line of standard input is a command, its arguments
 * separated by tabs. A line with only {@code end-of-command} follows what a command printed.
 */
public final class AdminRunner {
    private AdminRunner() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            MQAdminStartup.main0(line.split("\t"), null);
            System.out.printf("%nend-of-command%n");
            System.out.flush();
        }
        System.exit(0);
    }
}
