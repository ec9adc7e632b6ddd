import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * One workload of the bench with Flink SQL on its mini-cluster, in this process, exactly once. Arguments are name=value. Runs until
 * its standard input ends, which it does when the bench does, however that ends.
 */
public final class FlinkApp {
    private static final String MINI_BATCH_RECORDS = "100000"; // So that it is the time that ends one.

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
            settings.setString("table.exec.mini-batch.size", MINI_BATCH_RECORDS);
            settings.setString("table.optimizer.agg-phase-strategy", "TWO_PHASE");
        }
        return settings;
    }

    private static String source(Map<String, String> options) {
        Map<String, String> found = new LinkedHashMap<>();
        found.put("topic", options.get("source"));
        found.put("scan.startup.mode", "earliest-offset");
        found.put("properties.bootstrap.servers", options.get("bootstrap-servers"));
        found.put("properties.group.id", options.get("group"));
        // One thread polls and another one works, and two polls at most lie between them: of its client's 500 records each, so
        // that either waits for the other most of the time.
        found.put("properties.max.poll.records", "10000");
        found.put("properties.max.partition.fetch.bytes", "8388608"); // Its client's 1 MB is one batch of the source.
        return written(found);
    }

    private static String sink(Map<String, String> options) {
        Map<String, String> found = new LinkedHashMap<>();
        found.put("topic", options.get("sink"));
        found.put("properties.bootstrap.servers", options.get("bootstrap-servers"));
        found.put("sink.delivery-guarantee", "exactly-once");
        found.put("sink.transactional-id-prefix", options.get("group"));
        // Producers are used again, as the connector advises for brokers from 3.0 on: otherwise each checkpoint has new
        // transactional ids, for which everything waits.
        found.put("sink.transaction-naming-strategy", "POOLING");
        found.put("properties.transaction.timeout.ms", "600000"); // Flink's hour is more than a broker grants.
        found.put("properties.linger.ms", "10"); // Its client's 5 ms and 16 KB make more requests.
        found.put("properties.batch.size", "131072");
        return written(found);
    }

    private static String written(Map<String, String> options) {
        return options.entrySet().stream()
                .map(each -> "'" + each.getKey() + "' = '" + each.getValue() + "'")
                .collect(Collectors.joining(", "));
    }

    private static String[] statements(Map<String, String> options) {
        String source = source(options);
        String sink = sink(options);
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
