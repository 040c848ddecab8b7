import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;

/** Works on a queue with Kafka's own share consumer, and administers its group. ADDRESS GROUP TOPIC COUNT */
public class ShareQueue {
    private static final String TEXT = "org.apache.kafka.common.serialization.StringDeserializer";

    public static void main(String[] arguments) throws Exception {
        String group = arguments[1];
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", TEXT);
        settings.put("value.deserializer", TEXT);
        try (Admin admin = Admin.create(settings)) {
            try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
                work(consumer, topic, count);
                var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
                System.out.println("state " + described.groupState() + " members " + described.members().size());
            }
            System.out.println("start " + start(admin, group, topic));
            admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 1L)).all().get();
            System.out.println("moved " + start(admin, group, topic));
            admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
            admin.deleteShareGroups(List.of(group)).all().get();
            System.out.println("groups " + admin.listGroups().all().get().size());
        }
    }

    private static void work(KafkaShareConsumer<String, String> consumer, String topic, int count) {
        consumer.subscribe(List.of(topic));
        int accepted = 0;
        int released = 0;
        while (accepted < count) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                boolean isFirst = record.deliveryCount().orElse((short) 0) == 1;
                if (isFirst && record.value().equals("3")) {
                    consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    released++;
                } else {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    accepted++;
                }
            }
            consumer.commitSync().values().forEach(fault -> fault.ifPresent(one -> {
                throw one;
            }));
        }
        System.out.println("accepted " + accepted + " released " + released);
    }

    private static long start(Admin admin, String group, String topic) throws Exception {
        var offsets = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).all().get().get(group);
        return offsets.get(new TopicPartition(topic, 0)).offset();
    }
}
