/* Latency workloads: one message after the other, at a fixed rate, and with a concurrent reader. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYNC_WARM_UP 200
#define CONNECT_MS 300
#define COPIED (RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK)

static long delivered;
static double *ack_took; /* of messages that carry the time at which they were due */
static long acks;

void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    delivered++;
    if (message->err)
        failed++;
    else if (message->_private)
        ack_took[acks++] = now() - *(double *)message->_private;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_latencies(double *took, long count, double seconds) {
    qsort(took, count, sizeof *took, by_value);
    printf("{\"seconds\": %.6f, \"count\": %ld, \"p50_ms\": %.6f, \"p99_ms\": %.6f, \"p999_ms\": %.6f}\n", seconds,
           count, took[count / 2] * 1e3, took[count * 99 / 100] * 1e3, took[count * 999 / 1000] * 1e3);
}

static double produce_one(rd_kafka_t *client, rd_kafka_topic_t *topic, size_t size) {
    long before = delivered;
    double start = now();
    if (rd_kafka_produce(topic, 0, 0, payloads[0], size, NULL, 0, NULL))
        die("produce", rd_kafka_err2str(rd_kafka_last_error()));
    while (delivered == before)
        rd_kafka_poll(client, 1000);
    if (failed)
        die("produce", "the broker refused a record");
    return now() - start;
}

void sync_produce(const struct task *task) {
    rd_kafka_t *client = connect_to(task, RD_KAFKA_PRODUCER);
    rd_kafka_topic_t *topic = topic_of(client, task);
    double *took = malloc(task->count * sizeof *took);
    for (int i = 0; i < SYNC_WARM_UP; i++)
        produce_one(client, topic, task->size);
    wait_for_go();
    double start = now();
    for (long i = 0; i < task->count; i++)
        took[i] = produce_one(client, topic, task->size);
    print_latencies(took, task->count, now() - start);
}

/* Sends at a fixed rate. Latency counts from when a message was due, even where it is sent late, so that a broker that
 * delays the sender does not hide how long the messages behind it waited. */
struct pace {
    const struct task *task;
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    long count;
    double *due; /* for the acknowledgements, where they are timed */
    volatile int is_over;
};

static void *send_paced(void *argument) {
    struct pace *pace = argument;
    char *message = malloc(pace->task->size + sizeof(double));
    memset(message, 'x', pace->task->size);
    double start = now();
    for (long i = 0; i < pace->count && !pace->is_over; i++) {
        double due = start + (double)i / pace->task->rate, left;
        while ((left = due - now()) > 0)
            usleep((useconds_t)(left * 1e6) + 1);
        memcpy(message, &due, sizeof due);
        if (pace->due)
            pace->due[i] = due;
        void *kept = pace->due ? &pace->due[i] : NULL;
        if (rd_kafka_produce(pace->topic, 0, COPIED, message, pace->task->size, NULL, 0, kept))
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        if (!pace->due)
            rd_kafka_poll(pace->client, 0);
    }
    if (!pace->due)
        rd_kafka_flush(pace->client, TIMEOUT_MS);
    return NULL;
}

static void *poll_acks(void *argument) {
    struct pace *pace = argument;
    while (!pace->is_over || rd_kafka_outq_len(pace->client))
        rd_kafka_poll(pace->client, 10);
    return NULL;
}

/* Reads COUNT existing records while others are added at RATE; those are not read. */
void catch_up(const struct task *task) {
    rd_kafka_t *reader = connect_to(task, RD_KAFKA_CONSUMER);
    rd_kafka_topic_t *read = topic_of(reader, task);
    struct pace pace = {.task = task, .client = connect_to(task, RD_KAFKA_PRODUCER)};
    pthread_t sender, poller;
    pace.topic = topic_of(pace.client, task);
    pace.count = task->rate * (TIMEOUT_MS / 1000);
    pace.due = malloc(pace.count * sizeof *pace.due);
    ack_took = malloc(pace.count * sizeof *ack_took);
    for (int i = 0; i < SYNC_WARM_UP; i++)
        produce_one(pace.client, pace.topic, task->size);
    wait_for_go();
    pthread_create(&poller, NULL, poll_acks, &pace);
    pthread_create(&sender, NULL, send_paced, &pace);
    double seconds = read_all(read, task->count);
    pace.is_over = 1;
    pthread_join(sender, NULL);
    pthread_join(poller, NULL);
    if (failed || !acks)
        die("catchup", failed ? "the broker refused records" : "nothing was acknowledged meanwhile");
    qsort(ack_took, acks, sizeof *ack_took, by_value);
    printf("{\"seconds\": %.6f, \"count\": %ld, \"acks\": %ld, \"ack_p50_ms\": %.6f, \"ack_p99_ms\": %.6f}\n", seconds,
           task->count, acks, ack_took[acks / 2] * 1e3, ack_took[acks * 99 / 100] * 1e3);
}

/* The first tenth is not counted: both clients are still warming up. */
void end_to_end(const struct task *task) {
    rd_kafka_t *client = connect_to(task, RD_KAFKA_CONSUMER);
    rd_kafka_topic_t *topic = topic_of(client, task);
    struct pace pace = {.task = task, .client = connect_to(task, RD_KAFKA_PRODUCER), .count = task->count};
    double *took = malloc(task->count * sizeof *took);
    pthread_t producer;
    pace.topic = topic_of(pace.client, task);
    rd_kafka_consume_start(topic, 0, RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_message_t *none = rd_kafka_consume(topic, 0, CONNECT_MS);
    if (none)
        rd_kafka_message_destroy(none);
    wait_for_go();
    double start = now();
    pthread_create(&producer, NULL, send_paced, &pace);
    for (long seen = 0; seen < task->count;) {
        rd_kafka_message_t *message = rd_kafka_consume(topic, 0, 1000);
        if (now() - start > TIMEOUT_MS / 1000)
            die("endtoend", "records are missing");
        if (!message)
            continue;
        if (!message->err) {
            double due;
            memcpy(&due, message->payload, sizeof due);
            took[seen++] = now() - due;
        }
        rd_kafka_message_destroy(message);
    }
    double seconds = now() - start;
    pthread_join(producer, NULL);
    print_latencies(took + task->count / 10, task->count - task->count / 10, seconds);
}
