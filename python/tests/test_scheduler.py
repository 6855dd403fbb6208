"""Schedulers written in Python."""

from __future__ import annotations

import collections

import pytest

import seekwise as sw


class Fcfs(sw.Scheduler):
    """First come, first served."""

    def __init__(self):
        self.queue = collections.deque()

    def insert(self, now, request):
        self.queue.append(request)

    def pick(self, now):
        return self.queue.popleft() if self.queue else None


class Nearest(sw.Scheduler):
    """Serves the request nearest to the end of the last one, with a limit on consecutive requests in one direction."""

    tunables = {"most": sw.Tunable(default=16, min=1, max=1000, doc="Requests before the oldest has its turn.")}

    def __init__(self):
        self.queue, self.at, self.row = [], 0, 0
        self.seen = []

    def insert(self, now, request):
        self.queue.append(request)

    def pick(self, now):
        if not self.queue:
            return None
        self.row += 1
        if self.row > self.most:
            self.row, chosen = 0, self.queue[0]
        else:
            chosen = min(self.queue, key=lambda request: abs(request.lba - self.at))
        self.queue.remove(chosen)
        self.at = chosen.end
        return chosen

    def completed(self, now, request, service):
        assert now >= request.arrival_ns and service > 0


class Waiting(sw.Scheduler):
    """Idles the device for a millisecond before each request."""

    work_conserving = False

    def __init__(self):
        self.queue, self.until = collections.deque(), 0

    def insert(self, now, request):
        self.queue.append(request)

    def pick(self, now):
        if not self.queue:
            return None
        if self.until <= now and self.until:
            self.until = 0
            return self.queue.popleft()
        if not self.until:
            self.until = now + 1_000_000
        return self.until


@pytest.mark.parametrize("scheduler", [Fcfs, Nearest, Waiting])
def test_a_class_that_keeps_the_rules_conforms(scheduler):
    sw.check_scheduler(scheduler, cases=24)


def test_first_come_first_served_is_noop_where_nothing_merges(trace):
    here = sw.simulate(trace, disk="sata7200", scheduler=Fcfs)
    noop = sw.simulate(trace, disk="sata7200", scheduler="noop", host={"nomerges": 2})
    assert here.figures.to_dict() == noop.figures.to_dict() and here.scheduler == "fcfs"
    assert [pair for pair in here.to_dict()["scheduler"]["tunables"]] == []


def test_tunables_are_attributes_and_change_the_order(trace):
    runs = [sw.simulate(trace, disk="sata7200", speed=4, queue_depth=1, queue_policy="fifo", scheduler=(Nearest, {"most": most})) for most in (1, 1000)]
    assert runs[0].scheduler == "nearest:most=1" and runs[1].scheduler == "nearest:most=1000"
    assert runs[1].figures.throughput_mb_s > runs[0].figures.throughput_mb_s
    with pytest.raises(sw.InvalidInputError, match="nearest has no tunable \"least\"; it has most"):
        sw.simulate(trace, scheduler=(Nearest, {"least": 3}))
    with pytest.raises(sw.InvalidInputError, match="should be a whole number from 1 to 1000"):
        sw.simulate(trace, scheduler=(Nearest, {"most": 0}))


def test_a_class_is_compared_with_others(trace):
    rows = sw.compare(trace, disk="sata7200", schedulers=["noop", Fcfs, Nearest]).to_pylist()
    means = {row["scheduler"]: row["value"] for row in rows if row["figure"] == "response.mean_ms"}
    assert set(means) == {"noop", "fcfs", "nearest"}


class Raises(Fcfs):
    def pick(self, now):
        if now > 1_000_000_000:
            raise LookupError("out of ideas")
        return super().pick(now)


class Twice(Fcfs):
    def __init__(self):
        super().__init__()
        self.last = None

    def pick(self, now):
        if self.last is not None:
            return self.last
        self.last = super().pick(now)
        return self.last


class Forgets(Fcfs):
    def pick(self, now):
        return None


class Past(Fcfs):
    def pick(self, now):
        return now if self.queue else None


class Never(Fcfs):
    work_conserving = False

    def pick(self, now):
        return now + 1000 if self.queue else None


class Words(Fcfs):
    def pick(self, now):
        return "next" if self.queue else None


class Raising(sw.Scheduler):
    def __init__(self):
        raise OSError("no")


def test_what_a_scheduler_raises_comes_out_as_it_is(trace):
    with pytest.raises(LookupError, match="out of ideas") as raised:
        sw.simulate(trace, scheduler=Raises)
    assert any("test_scheduler.py" in str(entry.path) for entry in raised.traceback)
    with pytest.raises(OSError, match="no"):
        sw.simulate(trace, scheduler=Raising)
    with pytest.raises(NotImplementedError, match="Empty.insert"):
        sw.simulate(trace, scheduler=type("Empty", (sw.Scheduler,), {}))


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        (Twice, r"Twice.pick\(\) returned request \d+, which is not queued"),
        (Forgets, r"Forgets.pick\(\) returned None, but \d+ requests are queued"),
        (Past, r"Past.pick\(\) returned the time \d+, which should be later"),
        (Never, r"Never.pick\(\) named a later time 100000 times in a row, with \d+ requests queued"),
        (Words, r"Words.pick\(\) returned str; a request, a time in ns or None is wanted"),
    ],
)
def test_answers_that_break_a_rule_are_refused_in_runs_and_by_the_kit(trace, scheduler, words):
    with pytest.raises(sw.InvalidInputError, match=words):
        sw.simulate(trace, scheduler=scheduler)
    with pytest.raises(sw.SeekwiseError):
        sw.check_scheduler(scheduler, cases=8)


class Lazy(Waiting):
    work_conserving = True


class Random(Fcfs):
    """A nondeterministic order."""

    runs = 0

    def __init__(self):
        super().__init__()
        Random.runs += 1
        self.is_odd = Random.runs % 2

    def pick(self, now):
        if not self.queue:
            return None
        return self.queue.pop() if self.is_odd else self.queue.popleft()


@pytest.mark.parametrize(("scheduler", "rule"), [(Lazy, "work-conserving"), (Random, "the same input should give the same order")])
def test_the_kit_finds_what_no_single_answer_shows(scheduler, rule):
    with pytest.raises(sw.ConformanceError, match=rule):
        sw.check_scheduler(scheduler, cases=24)


class Completing(Fcfs):
    def completed(self, now, request, service):
        raise LookupError("in completed")


class Leaving(Fcfs):
    def pick(self, now):
        raise SystemExit(3)


class Nested(Fcfs):
    def pick(self, now):
        if self.queue:
            sw.simulate("recipes/etcd", disk="cloud-volume", threads=1) if now == 0 else None
        return super().pick(now)


def test_a_scheduler_may_do_what_it_likes_and_the_run_ends(trace):
    with pytest.raises(LookupError, match="in completed"):
        sw.simulate(trace, scheduler=Completing)
    with pytest.raises(SystemExit):
        sw.simulate(trace, scheduler=Leaving)
    assert sw.simulate(trace, scheduler=Nested).figures.to_dict() == sw.simulate(trace, scheduler=Fcfs).figures.to_dict()


def test_what_is_no_scheduler_is_refused(trace):
    for wrong in (object, 3, Fcfs()):
        with pytest.raises(sw.InvalidInputError, match="should be a name such as 'bfq', or a class"):
            sw.simulate(trace, scheduler=wrong)
    with pytest.raises(sw.InvalidInputError, match="tunables: a of Bare is 3; Tunable"):
        sw.simulate(trace, scheduler=type("Bare", (Fcfs,), {"tunables": {"a": 3}}))
    with pytest.raises(sw.InvalidInputError, match="give the class another name"):
        sw.simulate(trace, scheduler=type("Bfq", (Fcfs,), {}))
