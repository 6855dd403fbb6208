//! The capacity that guarantees need on a host.
//!
//! ```text
//! work  =  requests per second on the reference disk × work of the host for each, with others  ÷  most work of the host (saturation)
//! time  =  the larger of  p99 alone here ÷ p99 on the reference disk  and  rate there ÷ rate alone here
//! wait  =  (p99 alone here + one request of a neighbour, at worst)  ÷  p99 on the reference disk
//! ```
//! *Work* counts a request at its cost between requests of others: on a hard disk a stream of small reads costs a seek for each as
//! soon as anything else is served, some hundred times its cost alone. *Time* is the share that a tenant needs while it is active, however
//! few requests it issues: one that may take 12 ms, and takes 10 alone, leaves a sixth to others. A request at the device is not
//! preempted: *wait* is the part of a tenant's allowed response time that passes if a neighbour's longest request has just begun.
//!
//! Work and time add up over tenants, each with the larger of the two, times its activity in its most active second; wait is that of the
//! tenant with the largest. Guarantees fit if neither the sum nor the wait exceeds 1. On a device of several units that is conservative:
//! tenants that leave each other no time may be served side by side.

use report::guarantee::{NeedKind, NeedParts};

/// Longest time that a request occupies the host, as a multiple of the mean.
const LONGEST: f64 = 2.0;

/// The service that a load gets alone on a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service {
    /// Requests per second of its active time.
    pub iops: f64,
    /// Its p99 response time in seconds.
    pub p99_s: f64,
}

/// The capacity that the guarantee of one tenant needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    /// The part of the host's work; 0 is none, 1 is all.
    pub work: f64,
    /// The part of the host's time; 0 is none, 1 is all.
    pub time: f64,
    allowed_s: f64,
    own_s: f64,
    /// Seconds for which one of its requests occupies the host at worst; 0 if the device reports no work. Overestimated for requests that
    /// several units of a device serve.
    occupies_s: f64,
}

impl Need {
    /// The need of a load with service `there` on its reference disk and `here` alone on the host. `work` is the part of the host's work
    /// that it needs at that pace, `cost_s` the host's work for one of its requests in seconds.
    pub fn new(work: f64, there: Service, here: Service, cost_s: f64) -> Need {
        let ratio = |one: f64, other: f64| if other > 0.0 { one / other } else { 0.0 };
        let time = f64::max(ratio(here.p99_s, there.p99_s), ratio(there.iops, here.iops));
        Need { work, time, allowed_s: there.p99_s, own_s: here.p99_s, occupies_s: LONGEST * cost_s }
    }

    /// Scales work and time by `part`, for a tenant that is not always active or is limited. The wait is unchanged.
    #[must_use]
    pub fn times(self, part: f64) -> Need {
        Need { work: self.work * part, time: self.time * part, ..self }
    }

    /// The part of the host's capacity: the larger of work and time.
    pub fn part(&self) -> f64 {
        self.work.max(self.time)
    }

    /// The part of its allowed response time taken by its own p99 and one neighbour's request that occupies the host for `neighbour_s`
    /// seconds; 0 if either is unknown.
    pub fn wait(&self, neighbour_s: f64) -> f64 {
        if neighbour_s > 0.0 && self.allowed_s > 0.0 { (self.own_s + neighbour_s) / self.allowed_s } else { 0.0 }
    }
}

/// The capacity that all guarantees on a host need together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// The sum of the tenants' work.
    pub work: f64,
    /// The sum of the tenants' times.
    pub time: f64,
    /// The sum over tenants of the larger of work and time.
    pub sum: f64,
    /// The largest wait of any tenant, relative to its allowed response time.
    pub wait: f64,
}

impl Needs {
    /// The needs of these tenants on one host. Leave out tenants without a guarantee: they are served best effort.
    pub fn of(all: &[Need]) -> Needs {
        // The longest request, and the longest of all others for the tenant whose request that is.
        let longest = all.iter().enumerate().max_by(|(_, one), (_, other)| one.occupies_s.total_cmp(&other.occupies_s));
        let longest = longest.map(|(number, _)| number);
        let except = |without: Option<usize>| {
            let rest = all.iter().enumerate().filter(|(number, _)| Some(*number) != without);
            rest.map(|(_, need)| need.occupies_s).fold(0.0, f64::max)
        };
        let (first, second) = (except(None), except(longest));
        let mut needs = Needs::default();
        for (number, need) in all.iter().enumerate() {
            needs.work += need.work;
            needs.time += need.time;
            needs.sum += need.part();
            needs.wait = needs.wait.max(need.wait(if Some(number) == longest { second } else { first }));
        }
        needs
    }

    /// The part of the host that they need; above 1 they do not fit.
    pub fn part(&self) -> f64 {
        self.sum.max(self.wait)
    }

    /// The same figures in percent, for reports.
    pub fn figures(&self) -> NeedParts {
        let kind = match (self.wait > self.sum, self.time > self.work) {
            (true, _) => NeedKind::Wait,
            (false, true) => NeedKind::Time,
            (false, false) => NeedKind::Work,
        };
        let percent = |part: f64| 100.0 * part;
        NeedParts {
            largest: kind,
            work_percent: percent(self.work),
            time_percent: percent(self.time),
            wait_percent: percent(self.wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Service = Service { iops: 100.0, p99_s: 0.010 };

    #[test]
    fn a_disk_needs_all_of_itself_and_half_the_time_of_one_twice_as_fast() {
        let itself = Need::new(0.9, SERVICE, SERVICE, 0.008);
        assert_eq!(Needs::of(&[itself]).part(), 1.0);
        let faster = Service { iops: 200.0, p99_s: 0.005 };
        let half = Need::new(0.45, SERVICE, faster, 0.004);
        let two = Needs::of(&[half, half]);
        assert!(
            (two.sum - 1.0).abs() < 1e-9 && (two.wait - 1.3).abs() < 1e-9,
            "5 ms and 8 ms of the other, 10 ms allowed: {two:?}"
        );
        assert_eq!(two.figures().largest, NeedKind::Wait);
        assert_eq!(Needs::of(&[half, half.times(0.5)]).sum, 0.75);
    }

    #[test]
    fn a_tenants_own_requests_are_no_neighbours() {
        let (long, short) = (Need::new(0.1, SERVICE, SERVICE, 0.050), Need::new(0.1, SERVICE, SERVICE, 0.001));
        let (wait_of_short, wait_of_long) = (11.0, 1.2);
        assert!((Needs::of(&[long, short]).wait - wait_of_short).abs() < 1e-9);
        assert!((Needs::of(&[long, Need { allowed_s: 0.0, ..short }]).wait - wait_of_long).abs() < 1e-9);
        assert_eq!(Needs::of(&[long]).wait, 0.0, "alone there is no wait");
    }
}
