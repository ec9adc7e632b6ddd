import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * One workload of the bench with Flink SQL on its mini-cluster, in this process, exactly once. Arguments are name=value. Runs until
 * its standard input ends, which it does when the bench does, however that ends.
 */
public final class FlinkApp {
    private static final String TRANSACTION_TIMEOUT = "600000"; // Flink's hour is more than a broker grants.
    private static final String LINGER_MS = "10"; // Its client's 0 makes a request of each few records.
    private static final String BATCH_BYTES = "131072";

    public static void main(String[] arguments) throws IOException {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(settings(options))
                .build());
        for (String statement : statements(options)) {
            tables.executeSql(statement);
        }
        while (System.in.read() >= 0) {
            // Nobody says anything.
        }
        Runtime.getRuntime().halt(0);
    }

    private static Configuration settings(Map<String, String> options) {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", options.get("cores"));
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        settings.setString("execution.checkpointing.interval", options.get("commit-ms") + " ms");
        settings.setString("execution.checkpointing.dir", "file://" + options.get("home") + "/checkpoints");
        settings.setString("pipeline.object-reuse", "true"); // As its page on tuning has it: nothing here keeps a row.
        settings.setString("io.tmp.dirs", options.get("home"));
        settings.setString("restart-strategy.type", "none");
        if (options.get("mini-batch").equals("true")) {
            settings.setString("table.exec.mini-batch.enabled", "true");
            settings.setString("table.exec.mini-batch.allow-latency", options.get("commit-ms") + " ms");
            settings.setString("table.exec.mini-batch.size", "5000");
        }
        return settings;
    }

    private static String[] statements(Map<String, String> options) {
        String source = "'topic' = '" + options.get("source") + "', 'properties.group.id' = '" + options.get("group")
                + "', 'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = '"
                + options.get("bootstrap-servers") + "'";
        String sink = "'topic' = '" + options.get("sink") + "', 'properties.bootstrap.servers' = '"
                + options.get("bootstrap-servers") + "', 'sink.delivery-guarantee' = 'exactly-once', "
                + "'sink.transactional-id-prefix' = '" + options.get("group")
                + "', 'properties.linger.ms' = '" + LINGER_MS + "', 'properties.batch.size' = '" + BATCH_BYTES
                + "', 'properties.transaction.timeout.ms' = '" + TRANSACTION_TIMEOUT + "'";
        String values = "'format' = 'raw'";
        String both = "'key.format' = 'raw', 'key.fields' = 'key', 'value.format' = 'raw', "
                + "'value.fields-include' = 'EXCEPT_KEY'";
        String rows = "'key.format' = 'raw', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY'";
        return switch (options.get("workload")) {
            case "passthrough" -> new String[] {
                "CREATE TABLE source (`value` BYTES) WITH ('connector' = 'kafka', " + source + ", " + values + ")",
                "CREATE TABLE sink (`value` BYTES) WITH ('connector' = 'kafka', " + sink + ", " + values + ")",
                "INSERT INTO sink SELECT `value` FROM source"
            };
            case "keyed" -> new String[] {
                "CREATE TABLE source (`key` BYTES, `value` BYTES) WITH ('connector' = 'kafka', " + source + ", " + both + ")",
                "CREATE TABLE sink (`key` BYTES, `value` BYTES) WITH ('connector' = 'kafka', " + sink + ", " + both + ")",
                "INSERT INTO sink SELECT `key`, `value` FROM source"
            };
            case "aggregate" -> new String[] {
                "CREATE TABLE source (`key` STRING, `value` STRING) WITH ('connector' = 'kafka', " + source + ", " + both + ")",
                "CREATE TABLE sink (`key` STRING, `value` STRING, PRIMARY KEY (`key`) NOT ENFORCED) "
                        + "WITH ('connector' = 'upsert-kafka', " + sink + ", " + rows + ")",
                "INSERT INTO sink SELECT `key`, CAST(n AS STRING) || ',' || CAST(total AS STRING) FROM (SELECT `key`, "
                        + "COUNT(*) AS n, SUM(CAST(SUBSTRING(`value`, 1, 12) AS BIGINT)) AS total FROM source GROUP BY `key`)"
            };
            default -> throw new IllegalArgumentException(options.get("workload"));
        };
    }

    private FlinkApp() {}
}
