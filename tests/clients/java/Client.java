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
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's Java client behind one JSON object per line: java Client ADDRESS (see remote.py). */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SECONDS = 20;

    private final String address;
    private final Admin admin;
    private final Map<String, KafkaConsumer<String, String>> members = new HashMap<>();

    private final Map<String, KafkaProducer<String, String>> transactors = new HashMap<>();

    private Client(String address) {
        this.address = address;
        this.admin = Admin.create(Map.of("bootstrap.servers", address));
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", client.act(JSON.readTree(line)));
            } catch (Throwable fault) {
                StringWriter trace = new StringWriter();
                fault.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        client.admin.close();
        System.exit(0);
    }

    private Object act(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        String member = request.path("member").asText();
        switch (request.get("act").asText()) {
            case "create":
                NewTopic created = new NewTopic(topic, request.get("partitions").asInt(), (short) 1);
                return admin.createTopics(List.of(created)).all().get(SECONDS, TimeUnit.SECONDS);
            case "describe":
                return admin.describeTopics(List.of(topic))
                        .allTopicNames().get(SECONDS, TimeUnit.SECONDS).get(topic).partitions().size();
            case "delete":
                return admin.deleteTopics(List.of(topic)).all().get(SECONDS, TimeUnit.SECONDS);
            case "produce":
                return produce(topic, request);
            case "read":
                String isolation = request.path("committed").asBoolean() ? "read_committed" : "read_uncommitted";
                return read(topic, request.get("offset").asLong(), request.get("count").asInt(), isolation);
            case "offset_at":
                return offsetAt(topic, request.get("timestamp").asLong());
            case "join":
                KafkaConsumer<String, String> joined = consumer(Map.of(
                        "group.id", request.get("group").asText(),
                        "group.protocol", request.path("protocol").asText("classic")));
                joined.subscribe(List.of(topic));
                members.put(member, joined);
                return null;
            case "pump":
                return pump(members.get(member));
            case "init":
                KafkaProducer<String, String> started = transactor(request);
                transactors.put(member, started);
                started.initTransactions();
                return null;
            case "begin":
                transactors.get(member).beginTransaction();
                return null;
            case "send":
                transactors.get(member).send(new ProducerRecord<>(topic, 0, null, request.get("value").asText()))
                        .get(SECONDS, TimeUnit.SECONDS);
                return null;
            case "send_offset":
                transactors.get(member).sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(request.get("offset").asLong())),
                        new ConsumerGroupMetadata(request.get("group").asText()));
                return null;
            case "commit_transaction":
                transactors.get(member).commitTransaction();
                return null;
            case "abort_transaction":
                transactors.get(member).abortTransaction();
                return null;
            case "close_transactor":
                transactors.remove(member).close(Duration.ofSeconds(1));
                return null;
            case "commit":
                members.get(member).commitSync(Duration.ofSeconds(SECONDS));
                return null;
            case "leave":
                members.remove(member).close();
                return null;
            default:
                throw new IllegalArgumentException(request.toString());
        }
    }

    private Object produce(String topic, JsonNode request) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("acks", request.get("acks").asText());
        settings.put("enable.idempotence", request.get("acks").asText().equals("all"));
        settings.put("compression.type", request.get("codec").asText());
        settings.put("linger.ms", 20);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode value : request.get("values")) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value.asText())));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(SECONDS, TimeUnit.SECONDS);
            }
        }
        return null;
    }

    private KafkaProducer<String, String> transactor(JsonNode request) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", request.get("transactional_id").asText());
        settings.put("transaction.timeout.ms", request.get("timeout_ms").asInt());
        StringSerializer text = new StringSerializer();
        return new KafkaProducer<>(settings, text, text);
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", address);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        if (!"consumer".equals(settings.get("group.protocol"))) {
            settings.put("heartbeat.interval.ms", 50);
        }
        settings.put("fetch.max.wait.ms", 20);
        StringDeserializer text = new StringDeserializer();
        return new KafkaConsumer<>(settings, text, text);
    }

    private List<String> read(String topic, long offset, int count, String isolation) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }

    private long offsetAt(String topic, long timestamp) {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            return consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition).offset();
        }
    }

    private static Object pump(KafkaConsumer<String, String> member) {
        List<String> values = new ArrayList<>();
        for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(50))) {
            values.add(record.value());
        }
        List<Integer> assigned = new ArrayList<>();
        for (TopicPartition partition : member.assignment()) {
            assigned.add(partition.partition());
        }
        return Map.of("assigned", assigned, "values", values);
    }
}
