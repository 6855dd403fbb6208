//! Side effects: attributes that the kernel sets when others are written.

use super::{Attribute, MAX_SECTORS, NONE, NR_REQUESTS, Owner, READ_AHEAD, SCHEDULER, State, WRITE_BACK_THROTTLE};

/// The attributes that were written, to explain changes of others as side effects (each measured on Linux 6.18).
#[derive(Clone, Debug, Default)]
pub(crate) struct Upheaval {
    causes: Vec<&'static Attribute>,
}

/// The kernel's read-ahead for a device without an optimal transfer size, in KiB (`VM_READAHEAD_PAGES`).
const READ_AHEAD_KIB: i64 = 128;
/// Limit on the driver's tags in the default number of requests (`BLKDEV_DEFAULT_RQ`).
const DEFAULT_REQUESTS: i64 = 128;
/// Targets of write-back throttling in microseconds: off, and the defaults for non-rotational and rotational devices.
const WRITE_BACK_TARGETS: [i64; 3] = [0, 2_000, 75_000];

/// Default maximum size of a request, for any maximum of the driver, in KiB (`BLK_DEF_MAX_SECTORS_CAP`, in older and newer kernels).
const LARGEST_KIB: [i64; 2] = [1280, 4096];

impl Upheaval {
    /// Adds an attribute that was written.
    pub fn add(&mut self, cause: &'static Attribute) {
        self.causes.push(cause);
    }

    /// Whether the kernel may have changed this attribute as a side effect.
    pub fn disturbs(&self, attribute: &Attribute) -> bool {
        self.causes.iter().any(|cause| disturbs(cause, attribute))
    }

    /// Whether the kernel may have set this attribute to this value as a side effect. `now`: the state of the device; `former`: the numbers
    /// that an attribute had, or may have had in between.
    pub fn explains(&self, attribute: &Attribute, value: &str, now: &State, former: impl Fn(&str) -> Vec<i64>) -> bool {
        let Ok(number) = value.parse::<i64>() else { return false };
        if !self.disturbs(attribute) {
            return false;
        }
        let was_or_is = |name: &str| former(name).into_iter().chain(now.number(name)).collect::<Vec<i64>>();
        match attribute.name.as_str() {
            NR_REQUESTS => default_requests(now, now.scheduler()).is_none_or(|default| default == number),
            WRITE_BACK_THROTTLE => WRITE_BACK_TARGETS.contains(&number),
            READ_AHEAD => {
                let largest = was_or_is(MAX_SECTORS).into_iter().chain(now.largest_request_kib);
                let twice = largest.map(|kib| 2 * kib).chain([2 * now.optimal_transfer_bytes / 1024, READ_AHEAD_KIB]);
                twice.into_iter().any(|kib| kib == number)
            }
            MAX_SECTORS => now.largest_request_kib.is_some_and(|largest| LARGEST_KIB.iter().any(|cap| number == largest.min(*cap))),
            // `nr_requests` in newer kernels, three quarters of it in older ones.
            "iosched/async_depth" => was_or_is(NR_REQUESTS).into_iter().any(|all| number == all || number == 3 * all / 4),
            _ if attribute.counterpart().is_some() => number == 0,
            _ => attribute.tunable.is_some_and(|tunable| tunable.default == number),
        }
    }
}

fn disturbs(cause: &Attribute, attribute: &Attribute) -> bool {
    let name = attribute.name.as_str();
    match cause.name.as_str() {
        // Write-back throttling is off under bfq.
        SCHEDULER => matches!(name, NR_REQUESTS | WRITE_BACK_THROTTLE) || matches!(attribute.owner, Owner::Scheduler(_)),
        NR_REQUESTS => name == "iosched/async_depth",
        // When it is restored, it has its own default for a moment.
        MAX_SECTORS => matches!(name, READ_AHEAD | MAX_SECTORS),
        "iosched/strict_guarantees" => name == "iosched/slice_idle_us",
        _ => cause.counterpart() == Some(name),
    }
}

/// The default of `nr_requests` under this scheduler; `None` if the number of tags is unknown.
pub fn default_requests(now: &State, scheduler: &str) -> Option<i64> {
    let tags = now.tags?;
    Some(if scheduler == NONE { tags } else { 2 * tags.min(DEFAULT_REQUESTS) })
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn the_kernels_own_resets_are_distinguished_from_external_changes() {
        let values = [("scheduler", "bfq"), ("max_sectors_kb", "512")].map(|(name, value)| (name, value.to_owned()));
        let now = State { values: values.into(), tags: Some(64), largest_request_kib: Some(1280), ..State::default() };
        let explains = |cause: &str, name: &str, value| {
            let mut upheaval = Upheaval::default();
            upheaval.add(find(cause).unwrap());
            upheaval.explains(find(name).unwrap(), value, &now, |_| vec![256])
        };
        assert!(explains("scheduler", "nr_requests", "128") && !explains("scheduler", "nr_requests", "64"));
        assert!(explains("scheduler", "iosched/timeout_sync", "124") && !explains("scheduler", "iosched/timeout_sync", "500"));
        assert!(explains("scheduler", "wbt_lat_usec", "0") && !explains("max_sectors_kb", "wbt_lat_usec", "0"));
        for kib in ["128", "1024", "2560", "512"] {
            assert!(explains("max_sectors_kb", "read_ahead_kb", kib), "{kib}");
        }
        assert!(!explains("max_sectors_kb", "read_ahead_kb", "4096") && !explains("scheduler", "read_ahead_kb", "128"));
        assert!(explains("vm/dirty_bytes", "vm/dirty_ratio", "0") && !explains("vm/dirty_bytes", "vm/dirty_ratio", "20"));
    }
}
