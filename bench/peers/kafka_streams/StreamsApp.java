import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One workload of the bench with Kafka Streams, exactly once. Arguments are name=value. Runs until its standard input ends, which
 * it does when the bench does, however that ends.
 */
public final class StreamsApp {
    private static final int NUMBER_DIGITS = 12;

    /** A key's count of records and sum of their numbers. */
    record Total(long count, long sum) {
        Total with(long number) {
            return new Total(count + 1, sum + number);
        }

        static Serde<Total> serde() {
            return Serdes.serdeFrom(
                    (topic, total) -> total == null
                            ? null
                            : ByteBuffer.allocate(16).putLong(total.count).putLong(total.sum).array(),
                    (topic, bytes) -> {
                        if (bytes == null) {
                            return null;
                        }
                        ByteBuffer buffer = ByteBuffer.wrap(bytes);
                        return new Total(buffer.getLong(), buffer.getLong());
                    });
        }
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<Bytes, byte[]> records =
                builder.stream(options.get("source"), Consumed.with(Serdes.Bytes(), Serdes.ByteArray()));
        query(options.get("workload"), records)
                .to(options.get("sink"), Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(options));
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Nobody says anything.
        }
        streams.close();
    }

    private static KStream<Bytes, byte[]> query(String workload, KStream<Bytes, byte[]> records) {
        return switch (workload) {
            case "passthrough" -> records.map((key, value) -> KeyValue.pair((Bytes) null, value));
            case "keyed" -> records;
            case "aggregate" -> records.groupByKey(Grouped.with(Serdes.Bytes(), Serdes.ByteArray()))
                    .aggregate(
                            () -> new Total(0, 0),
                            (key, value, total) -> total.with(number(value)),
                            Materialized.with(Serdes.Bytes(), Total.serde()))
                    .toStream()
                    .mapValues(total -> (total.count() + "," + total.sum()).getBytes(StandardCharsets.US_ASCII));
            default -> throw new IllegalArgumentException(workload);
        };
    }

    private static long number(byte[] value) {
        long number = 0;
        for (int at = 0; at < NUMBER_DIGITS; at++) {
            number = number * 10 + (value[at] - '0');
        }
        return number;
    }

    private static Properties settings(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, options.get("group"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap-servers"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, options.get("home"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.get("cores"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, options.get("commit-ms"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put("auto.offset.reset", "earliest");
        settings.put(StreamsConfig.producerPrefix("batch.size"), "131072"); // Its client's 16 KB make more requests.
        return settings;
    }

    private StreamsApp() {}
}
