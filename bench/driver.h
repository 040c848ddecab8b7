/* What the parts of the driver share: `driver.c` has the command line and throughput, `latency.c` what is timed message
 * by message, `payloads.c` what is sent, `crowd.c` and `readers.c` many plain connections. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#define TIMEOUT_MS 60000

struct task {
    const char *mode, *address, *topic;
    size_t size;
    long count, rate;
    int settings_count;
    char **settings;
};

void die(const char *what, const char *why) __attribute__((noreturn));
double now(void);
void wait_for_go(void);
/* The value of a setting that is the driver's own ("driver.NAME=VALUE"), or what stands in for it. */
const char *own(const struct task *task, const char *name, const char *otherwise);

rd_kafka_t *connect_to(const struct task *task, rd_kafka_type_t type);
rd_kafka_topic_t *topic_of(rd_kafka_t *client, const struct task *task);
/* Reads the first records of a topic; returns the seconds. */
double read_all(rd_kafka_topic_t *topic, long count);

extern long failed; /* records that the broker refused */
extern char **payloads; /* what is sent, in turn */
extern long payloads_count;
void make_payloads(const struct task *task);

void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque);
void sync_produce(const struct task *task);
void end_to_end(const struct task *task);
void catch_up(const struct task *task);
void produce_from_many(const struct task *task);
void consume_by_many(const struct task *task);

#endif
