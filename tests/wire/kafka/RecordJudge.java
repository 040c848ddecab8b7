import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads lines of "name version hex" with Kafka's own classes, writes each again, and prints what differs. */
public class RecordJudge {
    private static final String[] COORDINATORS = {"group", "transaction", "share"};

    public static void main(String[] arguments) throws Exception {
        int agreed = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ", -1);
            byte[] data = HexFormat.of().parseHex(parts[2]);
            short version = Short.parseShort(parts[1]);
            ByteBuffer input = ByteBuffer.wrap(data);
            ApiMessage message = (ApiMessage) find(parts[0])
                .getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(input), version);
            ByteBuffer output = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] written = new byte[output.remaining()];
            output.get(written);
            if (input.hasRemaining() || !Arrays.equals(written, data)) {
                System.out.println("differs: " + line + " " + HexFormat.of().formatHex(written) + " " + message);
            } else {
                agreed++;
            }
        }
        System.out.println("agreed: " + agreed);
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String coordinator : COORDINATORS) {
            try {
                return Class.forName("org.apache.kafka.coordinator." + coordinator + ".generated." + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
