/* A plain connection of a driver's own, with TLS and SASL where the task says so. */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include "driver.h"

#include <sys/types.h>

struct channel {
    int fd;
    void *tls; /* NULL without */
};

/* Connects, authenticates, and makes it non-blocking. */
void channel_open(struct channel *channel, const struct task *task);
/* As write and read: -1 with EAGAIN where it would block. */
ssize_t channel_write(struct channel *channel, const void *data, size_t size);
ssize_t channel_read(struct channel *channel, void *data, size_t size);
/* Adds it to an epoll, edge-triggered. */
void channel_watch(int poll, struct channel *channel, void *who);
/* The frame of driver.frame, from hexadecimal. */
unsigned char *frame_of(const struct task *task, size_t *size);

#endif
