//! Selects the requests that a device is fitted to, within the CPU budget.

use block::Nanos;

use crate::device::MOST_REPLAYED;
use crate::recording::{ObservedRequest, Recording};

/// CPU time per fitted access, in nanoseconds. Source: `cargo bench -p seekwise-twin`.
const FITTED_NS: f64 = 10_000.0;
/// CPU time per replayed access in addition to [`FITTED_NS`], in nanoseconds. Source: `cargo bench -p seekwise-twin`, and 1,692 fits of
/// evaluations (commit 6332ff2d).
const REPLAYED_NS: f64 = 80_000.0;

/// CPU time of a search for the rotation over all speeds, in nanoseconds. Source: 32 ms for 512 completions with the optimisation of the
/// release, on a machine of two busy cores.
const SEARCH_NS: f64 = 30e6;

/// CPU time of a fit to `accesses` accesses with this number of searches for the rotation, in nanoseconds. Only the latest [`MOST_REPLAYED`]
/// are replayed.
pub fn costs_ns(accesses: usize, searches: u32) -> f64 {
    accesses as f64 * FITTED_NS + accesses.min(MOST_REPLAYED) as f64 * REPLAYED_NS + f64::from(searches) * SEARCH_NS
}

/// Number of accesses to which a device can be fitted in this CPU time.
pub fn affordable(budget_ns: f64) -> usize {
    let beyond_ns = budget_ns - costs_ns(MOST_REPLAYED, 0);
    match beyond_ns >= 0.0 {
        true => MOST_REPLAYED + (beyond_ns / FITTED_NS) as usize,
        false => (budget_ns / (FITTED_NS + REPLAYED_NS)) as usize,
    }
}

/// At most `requests` requests, the latest ones of each interval between changes in equal shares as far as there are enough, and the
/// flushes since the first of them. Each setting and each load shows other properties of the device.
pub fn sample(recording: &Recording, changes: impl Iterator<Item = Nanos>, requests: usize) -> Vec<ObservedRequest> {
    let ends: Vec<usize> = changes.map(|at| recording.done_before(at)).chain([recording.seen().len()]).collect();
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let parts: Vec<(usize, usize)> = begins.zip(ends.iter().copied()).collect();
    let lengths: Vec<usize> = parts.iter().map(|(begin, end)| end - begin).collect();
    let latest = parts.iter().zip(evenly(&lengths, requests)).map(|(&(_, end), count)| (end - count, count));
    let mut sample: Vec<ObservedRequest> =
        latest.flat_map(|(begin, count)| recording.seen().skip(begin).take(count).copied()).collect();
    let since = sample.iter().map(|seen| seen.request.arrival).min().unwrap_or(Nanos(u64::MAX));
    sample.extend(recording.flushes().filter(|flush| flush.request.arrival >= since));
    sample
}

/// Splits `whole` into equal shares, none larger than its length.
fn evenly(lengths: &[usize], whole: usize) -> Vec<usize> {
    let mut shares = vec![0; lengths.len()];
    // The shortest first: the rest of their shares is left to the others.
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|&part| lengths[part]);
    let mut left = whole;
    for (number, &part) in by_length.iter().enumerate() {
        shares[part] = (left / (by_length.len() - number)).min(lengths[part]);
        left -= shares[part];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_short_part_goes_to_the_others() {
        assert_eq!(evenly(&[100, 10, 100], 100), [45, 10, 45]);
        assert_eq!(evenly(&[3, 4], 100), [3, 4]);
        assert_eq!(evenly(&[50, 0], 20), [20, 0]);
    }
}
