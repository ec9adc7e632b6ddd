import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Utils;

/** Reads, from standard input, byte arrays with their length before each; prints a line for each: what Kafka's client reads in it. */
public final class BatchVerdict {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        while (true) {
            byte[] data;
            try {
                data = new byte[in.readInt()];
            } catch (EOFException end) {
                break;
            }
            in.readFully(data);
            out.println(verdict(data));
        }
        out.flush();
    }

    private static String verdict(byte[] data) {
        StringBuilder rows = new StringBuilder("ok");
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.create())) {
                    while (records.hasNext()) {
                        Record one = records.next();
                        if (batch.isControlBatch()) {
                            continue;  // a consumer shows none of them
                        }
                        rows.append(' ').append(one.offset()).append(',').append(one.timestamp());
                        rows.append(',').append(hex(one.hasKey(), one.key())).append(',').append(hex(one.hasValue(), one.value()));
                        for (Header header : one.headers()) {
                            byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
                            rows.append(',').append(HexFormat.of().formatHex(name)).append('=');
                            rows.append(header.value() == null ? "null" : HexFormat.of().formatHex(header.value()));
                        }
                    }
                }
            }
        } catch (Throwable refused) {
            return "bad " + refused.getClass().getSimpleName() + ": " + String.valueOf(refused.getMessage()).replace('\n', ' ');
        }
        return rows.toString();
    }

    private static String hex(boolean present, ByteBuffer value) {
        return present ? HexFormat.of().formatHex(Utils.toArray(value)) : "null";
    }
}
