/* Plain connections: TCP, then TLS where client.security.protocol is SASL_SSL, then SASL PLAIN with the client's name and
 * password. Without OpenSSL's headers (WITHOUT_TLS), only what needs no TLS works. */
#include "channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SASL_HANDSHAKE 17
#define SASL_AUTHENTICATE 36
#define LONGEST 1024

static const char *client_setting(const struct task *task, const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < task->settings_count; i++)
        if (!strncmp(task->settings[i], "client.", 7) && !strncmp(task->settings[i] + 7, name, length) &&
            task->settings[i][7 + length] == '=')
            return task->settings[i] + 7 + length + 1;
    return NULL;
}

#ifdef WITHOUT_TLS
static void begin_tls(struct channel *channel, const char *authority) {
    (void)channel, (void)authority;
    die("TLS", "the driver was compiled without OpenSSL");
}

ssize_t channel_write(struct channel *channel, const void *data, size_t size) {
    return write(channel->fd, data, size);
}

ssize_t channel_read(struct channel *channel, void *data, size_t size) {
    return read(channel->fd, data, size);
}
#else
#include <openssl/ssl.h>

static void begin_tls(struct channel *channel, const char *authority) {
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        if (SSL_CTX_load_verify_locations(context, authority, NULL) != 1)
            die(authority, "no certificates can be read");
    }
    channel->tls = SSL_new(context);
    SSL_set_fd(channel->tls, channel->fd);
    if (SSL_connect(channel->tls) != 1)
        die("TLS", "the handshake failed");
}

/* What OpenSSL says, as the system call would. */
static ssize_t outcome(struct channel *channel, int done) {
    if (done > 0)
        return done;
    int error = SSL_get_error(channel->tls, done);
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t channel_write(struct channel *channel, const void *data, size_t size) {
    return channel->tls ? outcome(channel, SSL_write(channel->tls, data, size)) : write(channel->fd, data, size);
}

ssize_t channel_read(struct channel *channel, void *data, size_t size) {
    return channel->tls ? outcome(channel, SSL_read(channel->tls, data, size)) : read(channel->fd, data, size);
}
#endif

static void read_whole(struct channel *channel, unsigned char *data, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t done = channel_read(channel, data + got, size - got);
        if (done <= 0)
            die("authentication", "the broker closed the connection");
        got += done;
    }
}

/* Sends a request with header version 1 and no client id; dies where its answer begins with an error. */
static void ask(struct channel *channel, int key, int version, const void *body, size_t size) {
    unsigned char frame[LONGEST] = {0}, answer[LONGEST];
    uint32_t length = htonl(10 + size);
    memcpy(frame, &length, 4);
    frame[5] = key, frame[7] = version, frame[11] = 1, frame[12] = frame[13] = 0xff;
    memcpy(frame + 14, body, size);
    if (channel_write(channel, frame, 14 + size) != (ssize_t)(14 + size))
        die("authentication", "the broker took no request");
    read_whole(channel, answer, 4);
    memcpy(&length, answer, 4);
    if (ntohl(length) > LONGEST || ntohl(length) < 6)
        die("authentication", "the answer has an odd size");
    read_whole(channel, answer, ntohl(length));
    if (answer[4] || answer[5])
        die("authentication", "the broker refused the client");
}

static void log_in(struct channel *channel, const char *name, const char *password) {
    unsigned char token[LONGEST / 2];
    int size = snprintf((char *)token + 4, sizeof token - 4, "%c%s%c%s", 0, name, 0, password);
    uint32_t length = htonl(size);
    memcpy(token, &length, 4);
    ask(channel, SASL_HANDSHAKE, 1, "\0\5PLAIN", 7);
    ask(channel, SASL_AUTHENTICATE, 0, token, 4 + size);
}

void channel_open(struct channel *channel, const struct task *task) {
    char host[64];
    int port, yes = 1;
    const char *protocol = client_setting(task, "security.protocol");
    if (sscanf(task->address, "%63[^:]:%d", host, &port) != 2)
        die(task->address, "HOST:PORT is expected");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &to.sin_addr);
    channel->tls = NULL;
    channel->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (channel->fd < 0 || connect(channel->fd, (struct sockaddr *)&to, sizeof to))
        die("connect", strerror(errno));
    setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (protocol && !strcmp(protocol, "SASL_SSL"))
        begin_tls(channel, client_setting(task, "ssl.ca.location"));
    if (protocol)
        log_in(channel, client_setting(task, "sasl.username"), client_setting(task, "sasl.password"));
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

void channel_watch(int poll, struct channel *channel, void *who) {
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = who};
    epoll_ctl(poll, EPOLL_CTL_ADD, channel->fd, &wanted);
}

unsigned char *frame_of(const struct task *task, size_t *size) {
    const char *text = own(task, "frame", "");
    unsigned char *frame = malloc(*size = strlen(text) / 2);
    for (size_t i = 0; i < *size; i++)
        if (sscanf(text + 2 * i, "%2hhx", &frame[i]) != 1)
            die("driver.frame", "it is not hexadecimal");
    return frame;
}
