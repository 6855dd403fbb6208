/*
 * A scheduler in C: in the direction of higher sectors, and from the lowest again (C-LOOK); a request that has waited longer than
 * `patience_ms` goes first.
 *
 *     cc -shared -fPIC -O2 -I crates/foreign/include -o elevator.so examples/elevator.c
 *     cargo run --release -p seekwise-foreign --example from_c elevator.so
 */
#include <stdlib.h>

#include "seekwise_scheduler.h"

struct elevator {
	struct seekwise_request *queued; /* in order of arrival */
	size_t count, room;
	uint64_t at; /* where the last request ended */
	uint64_t patience_ns;
};

static void retune(void *scheduler, const int64_t *values)
{
	struct elevator *elevator = scheduler;

	elevator->patience_ns = (uint64_t)values[0] * 1000000;
}

static void *create(const int64_t *values)
{
	struct elevator *elevator = calloc(1, sizeof(*elevator));

	if (elevator)
		retune(elevator, values);
	return elevator;
}

static void destroy(void *scheduler)
{
	struct elevator *elevator = scheduler;

	free(elevator->queued);
	free(elevator);
}

static void insert(void *scheduler, uint64_t now_ns, const struct seekwise_request *request)
{
	struct elevator *elevator = scheduler;

	(void)now_ns;
	if (elevator->count == elevator->room) {
		elevator->room = elevator->room ? 2 * elevator->room : 64;
		elevator->queued = realloc(elevator->queued, elevator->room * sizeof(*elevator->queued));
		if (!elevator->queued)
			abort();
	}
	elevator->queued[elevator->count++] = *request;
}

/* Whether a comes before b on the way up from `at`. */
static int before(uint64_t at, const struct seekwise_request *a, const struct seekwise_request *b)
{
	int a_behind = a->lba < at, b_behind = b->lba < at;

	return a_behind != b_behind ? b_behind : a->lba < b->lba;
}

static int pick(void *scheduler, uint64_t now_ns, uint32_t *id, uint64_t *until_ns)
{
	struct elevator *elevator = scheduler;
	size_t best = 0, i;

	(void)until_ns;
	if (!elevator->count)
		return SEEKWISE_EMPTY;
	if (now_ns - elevator->queued[0].arrival_ns <= elevator->patience_ns)
		for (i = 1; i < elevator->count; i++)
			if (before(elevator->at, &elevator->queued[i], &elevator->queued[best]))
				best = i;
	*id = elevator->queued[best].id;
	elevator->at = elevator->queued[best].lba + elevator->queued[best].sectors;
	elevator->count--;
	for (i = best; i < elevator->count; i++)
		elevator->queued[i] = elevator->queued[i + 1];
	return SEEKWISE_DISPATCH;
}

static const struct seekwise_tunable tunables[] = {
	{ "patience_ms", "Longest wait before a request goes first, in milliseconds.", 1, 10000, 500 },
};

const struct seekwise_scheduler seekwise_scheduler = {
	.version = SEEKWISE_SCHEDULER_VERSION,
	.work_conserving = 1,
	.name = "elevator-c",
	.summary = "C-LOOK, and first the requests that have waited long",
	.tunables = tunables,
	.tunable_count = 1,
	.create = create,
	.destroy = destroy,
	.retune = retune,
	.insert = insert,
	.pick = pick,
};
