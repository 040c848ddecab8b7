/* The payloads: one repeated letter, or lines that compress as real ones do. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISTINCT 10000 /* payloads, so that none recurs within a batch */
#define LINE "{\"ts\":%lu,\"host\":\"web-%02lu\",\"metric\":\"%s\",\"value\":%lu.%03lu}\n"

char **payloads;
long payloads_count;

/* Lines as a collector of metrics writes them: names that recur, numbers that do not. */
static void write_metrics(char *to, size_t size, unsigned long number) {
    static const char *names[] = {"cpu.user",    "cpu.system", "mem.used", "disk.read",
                                  "disk.write", "net.in",     "net.out",  "http.latency"};
    size_t used = 0;
    for (unsigned long part = 0; used < size; part++) {
        char line[200];
        unsigned long mixed = (number * 64 + part) * 6364136223846793005UL + 1442695040888963407UL;
        int length = snprintf(line, sizeof line, LINE, 1700000000000UL + number * 7, (mixed >> 33) % 40,
                              names[(mixed >> 40) % 8], (mixed >> 45) % 500, (mixed >> 50) % 1000);
        size_t taken = (size_t)length < size - used ? (size_t)length : size - used;
        memcpy(to + used, line, taken);
        used += taken;
    }
}

void make_payloads(const struct task *task) {
    int is_metrics = !strcmp(own(task, "payload", ""), "metrics");
    char *plain = malloc(task->size);
    memset(plain, 'x', task->size);
    payloads_count = is_metrics ? DISTINCT : 1;
    payloads = malloc(payloads_count * sizeof *payloads);
    payloads[0] = plain;
    for (long i = 0; is_metrics && i < DISTINCT; i++) {
        payloads[i] = malloc(task->size);
        write_metrics(payloads[i], task->size, i);
    }
}
