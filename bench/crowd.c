/* Many clients at once, each a raw connection (channel.c): a thousand handles of librdkafka would be thousands of threads.
 *
 * Every client sends the same prepared Produce request (version 7, driver.frame in hexadecimal) and keeps
 * driver.in_flight of them unanswered, until COUNT records are acknowledged in total; a request has driver.records.
 * An answer has as many bytes as any other, as the topic's name has: its error code is always at the same place.
 */
#include "channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 256

struct connection {
    struct channel channel;
    long to_send;  /* requests that may be sent now */
    size_t sent;   /* bytes of the first of them */
    char *answer;
    size_t got;
};

static unsigned char *frame;
static size_t frame_bytes, answer_bytes, error_at;
static long unsent, answered;

static void send_some(struct connection *one) {
    while (one->to_send) {
        ssize_t done = channel_write(&one->channel, frame + one->sent, frame_bytes - one->sent);
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0)
            die("send", strerror(errno));
        one->sent += done;
        if (one->sent == frame_bytes)
            one->to_send--, one->sent = 0;
    }
}

static void receive_some(struct connection *one) {
    for (;;) {
        ssize_t done = channel_read(&one->channel, one->answer + one->got, answer_bytes - one->got);
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0)
            die("receive", done ? strerror(errno) : "the broker closed a connection");
        one->got += done;
        if (one->got < answer_bytes)
            continue;
        if (one->answer[error_at] || one->answer[error_at + 1])
            die("produce", "the broker refused records");
        one->got = 0;
        answered++;
        if (unsent)
            unsent--, one->to_send++;
    }
}

/* Sends so many requests, shared among the clients as they become free. */
static void run(int poll, struct connection *all, long clients, long in_flight, long requests) {
    struct epoll_event events[EVENTS];
    double began = now();
    unsent = requests, answered = 0;
    for (long turn = 0; turn < in_flight; turn++)
        for (long i = 0; i < clients && unsent; i++)
            unsent--, all[i].to_send++;
    for (long i = 0; i < clients; i++)
        send_some(&all[i]);
    while (answered < requests) {
        int count = epoll_wait(poll, events, EVENTS, 1000);
        for (int i = 0; i < count; i++) {
            struct connection *one = events[i].data.ptr;
            if (events[i].events & EPOLLIN)
                receive_some(one);
            send_some(one);
        }
        if (now() - began > TIMEOUT_MS / 1000)
            die("clients", "not everything was acknowledged in time");
    }
}

void produce_from_many(const struct task *task) {
    long clients = atol(own(task, "clients", "1")), in_flight = atol(own(task, "in_flight", "1"));
    long records = atol(own(task, "records", "1"));
    struct connection *all = calloc(clients, sizeof *all);
    int poll = epoll_create1(0);
    frame = frame_of(task, &frame_bytes);
    /* Size, correlation id, topics, name, partitions, index; then the error code, three longs, the throttle time. */
    error_at = 4 + 4 + 4 + 2 + strlen(task->topic) + 4 + 4;
    answer_bytes = error_at + 2 + 3 * 8 + 4;
    for (long i = 0; i < clients; i++) {
        channel_open(&all[i].channel, task);
        all[i].answer = malloc(answer_bytes);
        channel_watch(poll, &all[i].channel, &all[i]);
    }
    run(poll, all, clients, 1, clients);
    wait_for_go();
    double start = now();
    run(poll, all, clients, in_flight, task->count / records);
    printf("{\"seconds\": %.6f, \"count\": %ld}\n", now() - start, task->count / records * records);
}
