import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Pushes its metrics, as Java's clients do by themselves, until its input ends: java ClientMetrics ADDRESS TOPIC CLIENT-ID. */
public final class ClientMetrics {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "client.id", arguments[2]);
        try (Admin admin = Admin.create(settings)) {
            System.out.println(admin.listConfigResources(java.util.Set.of(org.apache.kafka.common.config.ConfigResource.Type.CLIENT_METRICS),
                    new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get().stream().map(one -> one.name()).sorted().collect(Collectors.joining(",")));
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(arguments[1], "x")).get();
                Thread.sleep(50);
            }
            System.out.println(producer.clientInstanceId(java.time.Duration.ofSeconds(5)));
        }
        System.exit(0);
    }
}
