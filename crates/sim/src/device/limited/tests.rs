#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use block::Priority;

use super::*;

/// Serves everything at once in the time that it was built with, and takes a flush.
#[derive(Default)]
struct Quick {
    service: u64,
    held: VecDeque<(Nanos, RequestId)>,
    busy: Nanos,
    until: Nanos,
}

impl Device for Quick {
    fn capacity_sectors(&self) -> u64 {
        1 << 40
    }

    fn queue_depth(&self) -> usize {
        1_000
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.held.push_back((now + Nanos(self.service), request.id));
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.held.push_front((now, id));
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.held.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, id)) = self.held.front().copied().filter(|(at, _)| *at <= now) {
            self.held.pop_front();
            self.busy += at - self.until.max(at - Nanos(self.service));
            self.until = at;
            done.push(Completion {
                id,
                at,
                seek: Nanos::ZERO,
                rotation: Nanos::ZERO,
                seek_cylinders: 0,
                cache_hit: false,
                work: None,
            });
        }
    }

    fn busy(&self) -> Nanos {
        self.busy
    }
}

fn limits(text: &str) -> Limits {
    toml::from_str::<LimitsSpecification>(text).unwrap().check().unwrap()
}

fn device(text: &str, service: Nanos) -> Limited {
    Limited::new(Box::new(Quick { service: service.0, ..Quick::default() }), &limits(text))
}

fn request(id: RequestId, op: Op, sectors: u32) -> Request {
    Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba: 0, arrival: Nanos::ZERO }
}

/// Submits reads of these sizes at `now` and tells when each was done, in the order of the answers.
fn read_all(device: &mut Limited, now: Nanos, sizes: &[u32]) -> Vec<(RequestId, Nanos)> {
    let mut done = Vec::new();
    for (id, &sectors) in sizes.iter().enumerate() {
        device.advance(now, &mut done);
        device.submit(now, &request(id as u32, Op::Read, sectors));
    }
    while let Some(at) = device.wake_at() {
        device.advance(at, &mut done);
    }
    done.iter().map(|completion| (completion.id, completion.at)).collect()
}

fn times(device: &mut Limited, now: Nanos, sizes: &[u32]) -> Vec<u64> {
    read_all(device, now, sizes).into_iter().map(|(_, at)| at.0).collect()
}

const MS: u64 = 1_000_000;

#[test]
fn operations_pass_at_the_sustained_rate_and_do_not_drift() {
    let mut limited = device("operations_per_second = 3.0", Nanos::ZERO);
    let passed = times(&mut limited, Nanos(7), &[8; 3_001]);
    let expected = |number: u64| 7 + (number * 1_000_000_000).div_ceil(3);
    assert!(passed.iter().enumerate().all(|(number, &at)| at == expected(number as u64)), "{:?}", &passed[2_990..]);
}

#[test]
fn a_burst_ends_after_exactly_its_credits() {
    let text = "operations_per_second = 100\nburst_operations_per_second = 1000\nburst_operations = 90";
    let passed = times(&mut device(text, Nanos::ZERO), Nanos::ZERO, &[8; 110]);
    // Request n passes at n ms and finds 90 credits, those of n ms, less n: at least one up to n = 98.
    let burst: Vec<u64> = (0..99).map(|number| number * MS).collect();
    let plateau: Vec<u64> = (0..11).map(|number| (100 + 10 * number) * MS).collect();
    assert_eq!(passed, [burst, plateau].concat());
}

#[test]
fn credits_come_back_when_idle_up_to_their_most() {
    let text = "operations_per_second = 100\nburst_operations_per_second = 1000\nburst_operations = 90";
    let mut limited = device(text, Nanos::ZERO);
    let burst = |limited: &mut Limited, at_ms: u64| {
        let passed = times(limited, Nanos(at_ms * MS), &[8; 110]);
        passed.windows(2).take_while(|pair| pair[1] - pair[0] == MS).count() + 1
    };
    assert_eq!(burst(&mut limited, 0), 99);
    // The last left at 200 ms. 45 credits later half a burst is there, an hour later no more than a whole one.
    assert_eq!(burst(&mut limited, 200 + 450), 49);
    assert_eq!(burst(&mut limited, 3_600_000), 99);
}

#[test]
fn a_large_request_counts_as_several_operations() {
    let mut limited = device("operations_per_second = 1000\noperation_kib = 256", Nanos::ZERO);
    let passed = times(&mut limited, Nanos::ZERO, &[8, 512, 513, 2048, 8, 8]);
    assert_eq!(passed, [0, 1, 2, 4, 8, 9].map(|ms| ms * MS));
    let passed = times(&mut device("operations_per_second = 1000", Nanos::ZERO), Nanos::ZERO, &[2048; 3]);
    assert_eq!(passed, [0, 1, 2].map(|ms| ms * MS), "without a size every request is one");
}

#[test]
fn bytes_pass_at_their_rate_and_burst_as_operations_do() {
    let passed = times(&mut device("mb_s = 0.512", Nanos::ZERO), Nanos::ZERO, &[10, 1, 100, 1]);
    assert_eq!(passed, [0, 10, 11, 111].map(|ms| ms * MS), "512 bytes a millisecond");
    let text = "mb_s = 0.512\nburst_mb_s = 5.12\nburst_mb = 0.01536";
    let passed = times(&mut device(text, Nanos::ZERO), Nanos::ZERO, &[10; 7]);
    // 30 credits of a sector: 1 ms for each ten, of which it earns one; 2 + 4 - 50 lacks one credit after that, so a ms.
    assert_eq!(passed, [0, 1, 2, 3, 11, 21, 31].map(|ms| ms * MS));
}

#[test]
fn of_two_limits_the_tighter_counts() {
    let text = "operations_per_second = 1000\nmb_s = 0.512";
    assert_eq!(times(&mut device(text, Nanos::ZERO), Nanos::ZERO, &[1, 1, 5, 1, 1]), [0, 1, 2, 7, 8].map(|ms| ms * MS));
    assert_eq!(
        times(&mut device("operations_per_second = 500\nmb_s = 0.512", Nanos::ZERO), Nanos::ZERO, &[1, 1, 1]),
        [0, 2, 4].map(|ms| ms * MS)
    );
}

#[test]
fn requests_pass_in_order_of_arrival() {
    let mut limited = device("operations_per_second = 1000\noperation_kib = 1", Nanos(MS / 10));
    let order: Vec<u32> = read_all(&mut limited, Nanos::ZERO, &[64, 2, 64, 2, 2]).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

#[test]
fn a_flush_passes_at_once_and_a_discard_is_one_operation() {
    let mut limited = device("operations_per_second = 10\noperation_kib = 1\nmb_s = 1.0", Nanos::ZERO);
    let mut done = Vec::new();
    limited.submit(Nanos::ZERO, &request(0, Op::Discard, 1 << 20));
    limited.submit(Nanos::ZERO, &request(1, Op::Read, 1));
    limited.submit(Nanos::ZERO, &request(2, Op::Read, 1));
    assert!(limited.flush(Nanos(5), 3));
    while let Some(at) = limited.wake_at() {
        limited.advance(at, &mut done);
    }
    let done: Vec<(u32, u64)> = done.iter().map(|completion| (completion.id, completion.at.0)).collect();
    assert_eq!(done, [(0, 0), (3, 5), (1, 100 * MS), (2, 200 * MS)]);
}

#[test]
fn it_is_busy_while_a_request_waits_or_is_served() {
    let mut limited = device("operations_per_second = 100", Nanos(MS));
    read_all(&mut limited, Nanos(MS), &[8; 3]);
    // From 1 ms, when the first comes, to 22 ms, when the last that passed at 21 ms is done.
    assert_eq!(limited.busy(), Nanos(21 * MS));
    read_all(&mut limited, Nanos(100 * MS), &[8]);
    assert_eq!(limited.busy(), Nanos(22 * MS));
}
