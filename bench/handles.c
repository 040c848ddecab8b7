/* Many clients of librdkafka in one process (driver.handles), each with a thread and connections of its own: with TLS
 * and SASL as any client has them. They share COUNT evenly: producers write their share to the same partition, consumers
 * read their share from its beginning. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP_MAX 20000

struct handle {
    const struct task *task;
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    long count;
    pthread_t thread;
};

static int is_consumer(const struct task *task) {
    return !strcmp(task->mode, "consume");
}

static void *work(void *argument) {
    struct handle *one = argument;
    if (is_consumer(one->task))
        read_all(one->topic, one->count);
    else
        produce_all(one->client, one->topic, one->task, one->count);
    return NULL;
}

static void all_of(struct handle *handles, long how_many, long count) {
    for (long i = 0; i < how_many; i++) {
        handles[i].count = count;
        if (pthread_create(&handles[i].thread, NULL, work, &handles[i]))
            die("thread", "it cannot be started");
    }
    for (long i = 0; i < how_many; i++)
        pthread_join(handles[i].thread, NULL);
}

void run_handles(const struct task *task) {
    long how_many = atol(own(task, "handles", "1")), share = task->count / how_many;
    struct handle *handles = calloc(how_many, sizeof *handles);
    if (strcmp(task->mode, "produce") && !is_consumer(task))
        die(task->mode, "this mode has one client");
    for (long i = 0; i < how_many; i++) {
        handles[i].task = task;
        handles[i].client = connect_to(task, is_consumer(task) ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER);
        handles[i].topic = topic_of(handles[i].client, task);
    }
    if (!is_consumer(task))
        all_of(handles, how_many, share / 10 < WARM_UP_MAX ? share / 10 : WARM_UP_MAX);
    wait_for_go();
    double start = now();
    all_of(handles, how_many, share);
    printf("{\"seconds\": %.6f, \"count\": %ld}\n", now() - start, share * how_many);
}
