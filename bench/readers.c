/* Many consumers at once, each a raw connection (channel.c) with one Fetch unanswered: each reads its share of COUNT from
 * the beginning of partition 0. driver.frame is their first request (version 11, in hexadecimal), the offset in it is
 * changed from request to request. */
#include "channel.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 256
#define ROOM (4 << 20)
/* From the end of a request: offset, log start, most bytes, forgotten topics, the length of a rack's name. */
#define OFFSET_FROM_END (8 + 8 + 4 + 4 + 2)
#define RECORDS_AT 57
#define LAST_DELTA_AT 23
#define BATCH_HEAD 61

struct reader {
    struct channel channel;
    unsigned char *request, *answer;
    size_t request_bytes, sent, got;
    long left;
};

static size_t error_at, records_at;
static long unfinished;

static uint32_t number_at(const unsigned char *data) {
    uint32_t number;
    memcpy(&number, data, 4);
    return ntohl(number);
}

static void send_some(struct reader *one) {
    while (one->sent < one->request_bytes) {
        ssize_t done = channel_write(&one->channel, one->request + one->sent, one->request_bytes - one->sent);
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0)
            die("send", strerror(errno));
        one->sent += done;
    }
}

/* Counts the whole batches of an answer, and asks for what follows them. */
static void take(struct reader *one, size_t size) {
    if (size < records_at || one->answer[error_at] || one->answer[error_at + 1])
        die("fetch", "the broker refused it");
    for (size_t at = records_at; at + BATCH_HEAD <= size;) {
        unsigned char *batch = one->answer + at;
        size_t batch_bytes = 12 + (size_t)number_at(batch + 8);
        if (at + batch_bytes > size)
            break;
        uint64_t base;
        memcpy(&base, batch, 8);
        uint64_t next = htobe64(be64toh(base) + number_at(batch + LAST_DELTA_AT) + 1);
        memcpy(one->request + one->request_bytes - OFFSET_FROM_END, &next, 8);
        one->left -= number_at(batch + RECORDS_AT);
        at += batch_bytes;
    }
    one->got = 0;
    if (one->left > 0)
        one->sent = 0;
    else
        unfinished--;
}

static void receive_some(struct reader *one) {
    for (;;) {
        size_t wanted = one->got < 4 ? 4 : 4 + (size_t)number_at(one->answer);
        if (wanted > ROOM)
            die("fetch", "an answer is too large");
        ssize_t done = channel_read(&one->channel, one->answer + one->got, wanted - one->got);
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0)
            die("receive", done ? strerror(errno) : "the broker closed a connection");
        one->got += done;
        if (one->got > 4 && one->got == wanted) {
            take(one, wanted);
            send_some(one);
        }
    }
}

void consume_by_many(const struct task *task) {
    long clients = atol(own(task, "clients", "1")), share = task->count / clients;
    struct reader *all = calloc(clients, sizeof *all);
    struct epoll_event events[EVENTS];
    int poll = epoll_create1(0);
    /* Size, correlation id, throttle time, error, session, topics, name, partitions, index; then the error code, three
     * offsets, aborted transactions, the preferred replica, the size of the records. */
    error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + strlen(task->topic) + 4 + 4;
    records_at = error_at + 2 + 3 * 8 + 4 + 4 + 4;
    for (long i = 0; i < clients; i++) {
        channel_open(&all[i].channel, task);
        all[i].request = frame_of(task, &all[i].request_bytes);
        all[i].sent = all[i].request_bytes;
        all[i].answer = malloc(ROOM);
        all[i].left = share;
        channel_watch(poll, &all[i].channel, &all[i]);
    }
    wait_for_go();
    double start = now();
    unfinished = clients;
    for (long i = 0; i < clients; i++) {
        all[i].sent = 0;
        send_some(&all[i]);
    }
    while (unfinished) {
        int count = epoll_wait(poll, events, EVENTS, 1000);
        for (int i = 0; i < count; i++) {
            if (events[i].events & EPOLLIN)
                receive_some(events[i].data.ptr);
            send_some(events[i].data.ptr);
        }
        if (now() - start > TIMEOUT_MS / 1000)
            die("readers", "records are missing");
    }
    printf("{\"seconds\": %.6f, \"count\": %ld}\n", now() - start, share * clients);
}
