/* The client of all measurements: one workload against one broker, over librdkafka.
 *
 *     driver MODE ADDRESS TOPIC SIZE COUNT RATE [NAME=VALUE ...]
 *
 * MODE is create, delete, produce, consume, sync, endtoend, catchup, clients or readers. NAME=VALUE are settings of the topic
 * (create) or of librdkafka (the others); client.NAME=VALUE are librdkafka's in every mode, such as its security;
 * driver.NAME=VALUE are the driver's own: driver.partitions to produce to in turn, driver.payload=metrics instead of one
 * letter, and what crowd.c and readers.c name. A workload connects and warms up, prints
 * "ready", waits for a line on standard input, runs, and prints its result as one line of JSON. driver_python.py does
 * the same where this cannot be compiled.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP_MAX 20000
#define BATCH 10000
#define REPLICAS "replication.factor="
#define PARTITIONS "partitions="
#define OWN "driver."
#define CLIENT "client."

long failed;

void die(const char *what, const char *why) {
    fprintf(stderr, "driver: %s: %s\n", what, why);
    exit(1);
}

double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

const char *own(const struct task *task, const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 0; i < task->settings_count; i++) {
        const char *setting = task->settings[i];
        if (!strncmp(setting, OWN, strlen(OWN)) && !strncmp(setting + strlen(OWN), name, length) &&
            setting[strlen(OWN) + length] == '=')
            return setting + strlen(OWN) + length + 1;
    }
    return otherwise;
}

static int begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* A setting "producer.x" or "consumer.x" is for one kind of client only. */
static void apply(rd_kafka_conf_t *conf, const char *setting, rd_kafka_type_t type) {
    char name[256], why[512];
    const char *mine = type == RD_KAFKA_PRODUCER ? "producer." : "consumer.";
    const char *other = type == RD_KAFKA_PRODUCER ? "consumer." : "producer.";
    const char *equals = strchr(setting, '=');
    if (!equals || equals - setting >= (long)sizeof name)
        die(setting, "NAME=VALUE is expected");
    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    if (begins(name, other) || begins(name, OWN))
        return;
    const char *bare = begins(name, mine) ? name + strlen(mine) : begins(name, CLIENT) ? name + strlen(CLIENT) : name;
    if (rd_kafka_conf_set(conf, bare, equals + 1, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(setting, why);
}

rd_kafka_t *connect_to(const struct task *task, rd_kafka_type_t type) {
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", task->address, why, sizeof why) != RD_KAFKA_CONF_OK)
        die("bootstrap.servers", why);
    if (type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    int is_of_topic = !strcmp(task->mode, "create") || !strcmp(task->mode, "delete");
    for (int i = 0; i < task->settings_count; i++)
        if (!is_of_topic || begins(task->settings[i], CLIENT))
            apply(conf, task->settings[i], type);
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (!client)
        die("client", why);
    return client;
}

rd_kafka_topic_t *topic_of(rd_kafka_t *client, const struct task *task) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, task->topic, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, TIMEOUT_MS);
    if (error)
        die("metadata", rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
    return topic;
}

void wait_for_go(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        die("go", "standard input is closed");
}

static void produce_all(rd_kafka_t *client, rd_kafka_topic_t *topic, const struct task *task, long count) {
    int partitions = atoi(own(task, "partitions", "1")), partition = 0;
    long which = 0;
    for (long i = 0; i < count; i++) {
        if (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_BLOCK, payloads[which], task->size, NULL, 0, NULL))
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        if (++partition == partitions)
            partition = 0;
        if (++which == payloads_count)
            which = 0;
        if (i % BATCH == 0)
            rd_kafka_poll(client, 0);
    }
    if (rd_kafka_flush(client, TIMEOUT_MS))
        die("flush", "not everything was acknowledged in time");
    if (failed)
        die("produce", "the broker refused records");
}

static void produce(const struct task *task) {
    rd_kafka_t *client = connect_to(task, RD_KAFKA_PRODUCER);
    rd_kafka_topic_t *topic = topic_of(client, task);
    long warm_up = task->count / 10 < WARM_UP_MAX ? task->count / 10 : WARM_UP_MAX;
    produce_all(client, topic, task, warm_up);
    wait_for_go();
    double start = now();
    produce_all(client, topic, task, task->count);
    printf("{\"seconds\": %.6f, \"count\": %ld}\n", now() - start, task->count);
}

/* Reads the first records of a topic; returns the seconds. */
double read_all(rd_kafka_topic_t *topic, long count) {
    rd_kafka_message_t **messages = malloc(BATCH * sizeof *messages);
    double start = now();
    rd_kafka_consume_start(topic, 0, RD_KAFKA_OFFSET_BEGINNING);
    for (long seen = 0; seen < count;) {
        ssize_t got = rd_kafka_consume_batch(topic, 0, 1000, messages, count - seen < BATCH ? count - seen : BATCH);
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err)
                die("consume", rd_kafka_message_errstr(messages[i]));
            rd_kafka_message_destroy(messages[i]);
        }
        seen += got;
        if (now() - start > TIMEOUT_MS / 1000)
            die("consume", "records are missing");
    }
    return now() - start;
}

static void consume(const struct task *task) {
    rd_kafka_t *client = connect_to(task, RD_KAFKA_CONSUMER);
    rd_kafka_topic_t *topic = topic_of(client, task);
    wait_for_go();
    double seconds = read_all(topic, task->count);
    printf("{\"seconds\": %.6f, \"count\": %ld}\n", seconds, task->count);
}

static int take_number(const char *setting, const char *name, int *number) {
    if (strncmp(setting, name, strlen(name)))
        return 0;
    *number = atoi(setting + strlen(name));
    return 1;
}

static void administer(const struct task *task, int is_create) {
    char why[512];
    rd_kafka_t *client = connect_to(task, RD_KAFKA_PRODUCER);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    if (is_create) {
        int replicas = 1, partitions = 1;
        for (int i = 0; i < task->settings_count; i++) {
            take_number(task->settings[i], REPLICAS, &replicas);
            take_number(task->settings[i], PARTITIONS, &partitions);
        }
        rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(task->topic, partitions, replicas, why, sizeof why);
        for (int i = 0; i < task->settings_count; i++) {
            char *equals = strchr(task->settings[i], '=');
            int taken;
            if (take_number(task->settings[i], REPLICAS, &taken))
                continue;
            if (take_number(task->settings[i], PARTITIONS, &taken) || begins(task->settings[i], CLIENT))
                continue;
            *equals = 0;
            rd_kafka_NewTopic_set_config(topic, task->settings[i], equals + 1);
        }
        rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
    } else {
        rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(task->topic);
        rd_kafka_DeleteTopics(client, &topic, 1, NULL, queue);
    }
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    if (!event || rd_kafka_event_error(event))
        die(task->mode, event ? rd_kafka_event_error_string(event) : "no answer");
    size_t count = 1;
    const rd_kafka_topic_result_t **results =
        is_create ? rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count)
                  : rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count);
    if (rd_kafka_topic_result_error(results[0]))
        die(task->mode, rd_kafka_err2str(rd_kafka_topic_result_error(results[0])));
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "version")) {
        puts(rd_kafka_version_str());
        return 0;
    }
    if (count < 7)
        die("usage", "driver MODE ADDRESS TOPIC SIZE COUNT RATE [NAME=VALUE ...]");
    struct task task = {arguments[1], arguments[2], arguments[3], strtoul(arguments[4], NULL, 10),
                        atol(arguments[5]), atol(arguments[6]), count - 7, arguments + 7};
    make_payloads(&task);
    if (!strcmp(task.mode, "produce"))
        produce(&task);
    else if (!strcmp(task.mode, "consume"))
        consume(&task);
    else if (!strcmp(task.mode, "sync"))
        sync_produce(&task);
    else if (!strcmp(task.mode, "endtoend"))
        end_to_end(&task);
    else if (!strcmp(task.mode, "catchup"))
        catch_up(&task);
    else if (!strcmp(task.mode, "clients"))
        produce_from_many(&task);
    else if (!strcmp(task.mode, "readers"))
        consume_by_many(&task);
    else if (!strcmp(task.mode, "create") || !strcmp(task.mode, "delete"))
        administer(&task, !strcmp(task.mode, "create"));
    else
        die(task.mode, "there is no such mode");
    fflush(stdout);
    _exit(0); /* A clean shutdown of the client takes seconds and measures nothing. */
}
