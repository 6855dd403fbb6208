//! Replays recorded accesses on a model of the device.

use block::{Nanos, Op, Priority, Request, RequestId};
use sim::device::Device;

use super::access::Access;

/// First id of flushes, which are in the order of the accesses that they precede. Derived: half of the range of ids, so that those of
/// accesses are below.
const FLUSH: RequestId = 1 << 31;

/// Response times from dispatch to completion in ms, in the order of the accesses; NaN for accesses that were not completed.
#[derive(Clone, Debug)]
pub struct Responses {
    /// Response times of accesses.
    pub accesses: Vec<f64>,
    /// Response times of the flushes before them.
    pub flushes: Vec<f64>,
}

/// Replays the accesses. Each is submitted after the same number of others has completed as in the recording, and the same time after the
/// last of them: the model then has as many in flight as the device had, however fast it is.
pub fn responses(device: &mut dyn Device, accesses: &[Access]) -> Responses {
    let mut order: Vec<usize> = (0..accesses.len()).collect();
    order.sort_by_key(|&index| (accesses[index].dispatched, index));
    let first = order.first().map_or(0, |&index| accesses[index].dispatched);
    let unknown = || vec![f64::NAN; accesses.len()];
    let mut responses = Responses { accesses: unknown(), flushes: unknown() };
    let mut given = vec![Nanos::ZERO; accesses.len()];
    let mut asked = given.clone();
    let (mut ends, mut done) = (Vec::with_capacity(accesses.len()), Vec::new());
    let (mut next, mut after, mut now) = (0, 0, Nanos::ZERO);
    // Whether the flush before the next access was issued.
    let mut is_flushed = false;
    while ends.len() < accesses.len() {
        let due = order.get(next).and_then(|&index| {
            let flush = accesses[index].flush.filter(|_| !is_flushed);
            let dispatched = flush.map_or(accesses[index].dispatched, |flush| flush.asked);
            while accesses.get(after).is_some_and(|access| access.completed <= dispatched) {
                after += 1;
            }
            let (then, model) = match after {
                0 => (first, Nanos::ZERO),
                _ => (accesses[after - 1].completed, *ends.get(after - 1)?),
            };
            Some((index, flush.is_some(), now.max(model + Nanos(dispatched.saturating_sub(then)))))
        });
        match (due, device.wake_at()) {
            (Some((index, true, at)), wake) if wake.is_none_or(|wake| wake > at) => {
                now = at;
                (asked[index], is_flushed) = (at, true);
                if !device.flush(at, FLUSH + index as RequestId) {
                    responses.flushes[index] = 0.0;
                }
            }
            (Some((index, false, at)), wake) if wake.is_none_or(|wake| wake > at) => {
                let access = &accesses[index];
                now = at;
                is_flushed = false;
                given[index] = at;
                device.submit(at, &request(access, index, at));
                next += 1;
            }
            (_, Some(wake)) => {
                now = now.max(wake);
                device.advance(now, &mut done);
            }
            // The device is idle and nothing is due.
            _ => break,
        }
        for completion in done.drain(..) {
            match completion.id.checked_sub(FLUSH) {
                Some(index) => responses.flushes[index as usize] = (completion.at - asked[index as usize]).as_millis_f64(),
                None => {
                    let index = completion.id as usize;
                    responses.accesses[index] = (completion.at - given[index]).as_millis_f64();
                    ends.push(completion.at);
                }
            }
        }
    }
    responses
}

/// The request for an access.
pub fn request(access: &Access, index: usize, at: Nanos) -> Request {
    Request {
        id: index as u32,
        stream: 0,
        op: if access.write { Op::Write } else { Op::Read },
        sync: true,
        priority: Priority::DEFAULT,
        sectors: u32::try_from(access.sectors).unwrap_or(u32::MAX),
        lba: access.lba,
        arrival: at,
    }
}
