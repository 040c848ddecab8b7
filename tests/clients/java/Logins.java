import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's Java client logs in with the settings of each request: java Logins (see logins/programs.py). */
public final class Logins {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SECONDS = 20;

    private Logins() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", act(JSON.readTree(line)));
            } catch (Throwable fault) {
                StringWriter trace = new StringWriter();
                fault.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static Object act(JsonNode request) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        request.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        String topic = request.get("topic").asText();
        if (request.get("act").asText().equals("login_write")) {
            return write(settings, topic, request.get("values"));
        }
        return read(settings, topic, request.get("count").asInt());
    }

    private static Object write(Map<String, Object> settings, String topic, JsonNode values) throws Exception {
        settings.put("max.block.ms", SECONDS * 1000);
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text);
        try {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value.asText())));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(SECONDS, TimeUnit.SECONDS);
            }
        } finally {
            producer.close(Duration.ofSeconds(1));
        }
        return null;
    }

    private static Object read(Map<String, Object> settings, String topic, int count) {
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 20);
        StringDeserializer text = new StringDeserializer();
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }
}
