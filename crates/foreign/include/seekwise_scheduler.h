/*
 * An I/O scheduler for Seekwise in a shared library.
 *
 * The library defines `seekwise_scheduler`. Each queue gets an instance of its own, made by `create`. An instance is called by one
 * thread at a time, which may change between calls; different instances are called at the same time, so use no global state. Times
 * are nanoseconds of the host's clock, which never runs backwards. Do not read another clock or random numbers without a fixed
 * seed: the same input must give the same order.
 *
 *     cc -shared -fPIC -O2 -I crates/foreign/include -o elevator.so examples/elevator.c
 */
#ifndef SEEKWISE_SCHEDULER_H
#define SEEKWISE_SCHEDULER_H

#include <stddef.h>
#include <stdint.h>

/* Version of this interface. A library of another version is refused. */
#define SEEKWISE_SCHEDULER_VERSION 1

enum seekwise_op { SEEKWISE_READ = 0, SEEKWISE_WRITE = 1, SEEKWISE_DISCARD = 2 };

/* The priority classes of ionice(1), in its order. */
enum seekwise_class { SEEKWISE_REALTIME = 1, SEEKWISE_BEST_EFFORT = 2, SEEKWISE_IDLE = 3 };

struct seekwise_request {
	uint64_t lba;           /* first sector of 512 bytes */
	uint64_t arrival_ns;    /* when it reached the queue */
	uint32_t sectors;       /* at least 1 */
	uint32_t id;            /* unique from insert to completed, then reused; small */
	uint32_t stream;        /* process, job or tenant */
	uint8_t op;             /* enum seekwise_op */
	uint8_t sync;           /* 1: a process waits for it */
	uint8_t priority_class; /* enum seekwise_class */
	uint8_t priority_level; /* 0 (first) to 7 (last) */
};

struct seekwise_tunable {
	const char *name; /* lower-case letters, digits, - and _ */
	const char *doc;  /* a sentence, with a full stop */
	int64_t min, max, initial;
};

enum seekwise_answer {
	SEEKWISE_EMPTY = 0,    /* nothing is queued */
	SEEKWISE_DISPATCH = 1, /* *id goes to the device */
	SEEKWISE_WAIT = 2      /* nothing before *until_ns, later than now, although requests are queued */
};

struct seekwise_scheduler {
	uint32_t version; /* SEEKWISE_SCHEDULER_VERSION */
	uint32_t work_conserving; /* 1: pick never answers SEEKWISE_WAIT */
	const char *name;         /* lower-case letters, digits, - and _; not that of a scheduler of Seekwise */
	const char *summary;      /* one line */
	const struct seekwise_tunable *tunables;
	size_t tunable_count;

	/* A new instance, with the values of the tunables in their order; NULL if there is no memory. */
	void *(*create)(const int64_t *values);
	void (*destroy)(void *scheduler);
	/* Sets the tunables. NULL if there are none. */
	void (*retune)(void *scheduler, const int64_t *values);
	/* Queues a request. `request` is valid during the call only. */
	void (*insert)(void *scheduler, uint64_t now_ns, const struct seekwise_request *request);
	/* Removes the next request for the device from the queue; returns an enum seekwise_answer. */
	int (*pick)(void *scheduler, uint64_t now_ns, uint32_t *id, uint64_t *until_ns);
	/* A dispatched request has completed, service_ns after its dispatch. May be NULL. */
	void (*completed)(void *scheduler, uint64_t now_ns, uint32_t id, uint64_t service_ns);
};

extern const struct seekwise_scheduler seekwise_scheduler;

#endif
