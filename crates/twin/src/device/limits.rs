//! Finds a limit on operations or bytes per second, as of cloud volumes: a throughput plateau that is too regular for a device.
//!
//! ```text
//! accesses that waited ─▶ windows of accesses ─▶ consecutive windows of equal pace: plateau ─▶ slower than the device can be? ─▶ limit
//!                                                                               └─ amount above its rate before: credits
//! ```
//!
//! Service times of a device vary, and so does their sum; the amount that a limit admits per window does not. A saturated device also has
//! at least its throughput at queue depth 1: if it has less, something in front of it throttles. Two plateaus that look like a limit are
//! excluded: a saturated link or flash, whose pace a single request in flight explains, and sequential reads on a hard disk. Writes alone
//! are no evidence: a full write buffer also has a plateau.

use std::sync::Arc;

use sim::device::limited::spec::LimitsSpecification;
use sim::profile::DeviceProfile;
use sim::profile::limited::LimitedProfile;
use statistics::Rank;

use super::access::{Access, MIN_COUNT, in_context};
use super::findings::Finding;

/// Names of the findings of a limit.
pub(super) const OF_BYTES: &str = "limit of bytes";
pub(super) const OF_OPERATIONS: &str = "limit of operations";

/// Accesses per window: the minimum with which a plateau shows; more are needed if service times vary more. Choice: factors of four, as
/// chance halves at each; not varied.
const WINDOWS: [usize; 3] = [16, 64, 256];
/// Minimum number of consecutive windows of a plateau. Choice: chance levels against short recordings; not varied.
const LASTING: usize = 6;
/// Maximum relative difference between the times of the windows of a plateau. Choice: as [`LASTING`].
const LEVEL: f64 = 0.04;
/// Maximum relative distance from a plateau of the windows that belong to it. Choice: less than [`LEVEL`], as it counts from the mean; not
/// varied.
const NEAR: f64 = 0.03;
/// Windows below this factor on the pace of a plateau are a burst. Choice: above the noise of [`NEAR`], below the smallest burst of
/// interest; not varied.
const QUICKER: f64 = 0.9;
/// Minimum fraction of the windows not in a burst that belong to the plateau. Choice: pauses of the load against plateaus by chance; not
/// varied.
const MOSTLY: f64 = 0.7;
/// Sums of independent service times vary with the square root of their number; those at a limit vary by less than this fraction of that,
/// or each interval varies by less than [`EVEN`] of the mean. No device has either property. Choice: flash and disks without a limit showed
/// none in 8 loads of 2 seeds (commit f7b8ebe8); not varied.
const LESS_THAN_CHANCE: f64 = 0.4;
/// One device without a limit in a thousand may seem this regular. Derived: the normal quantile of 0.999.
const SURE_DEVIATIONS: f64 = 3.09;
/// Maximum deviation of single intervals at a limit, as a fraction of their mean: see [`LESS_THAN_CHANCE`]. Choice: as
/// [`LESS_THAN_CHANCE`].
const EVEN: f64 = 0.02;
/// A read with no others in flight takes less than this fraction of its time at the limit. Choice: as [`LESS_THAN_CHANCE`].
const QUICKER_ALONE: f64 = 0.7;
/// With [`MANY`] others in flight any solid-state drive exceeds this rate of reads, even with the first SATA generation and few dies.
/// Choice: a third to half of the 8,000 to 12,000 that such drives read one at a time (`research/research/src/devices/sata_flash.rs`); not
/// varied.
const SLOWEST_FLASH_A_SECOND: f64 = 4_000.0;
/// Such a drive exceeds this rate of bytes, in MB/s. Choice: below the 250 of the slowest (`research/research/src/devices/sata_flash.rs`);
/// not varied.
const SLOWEST_FLASH_MB_S: f64 = 200.0;
/// Number of others in flight: see [`SLOWEST_FLASH_A_SECOND`]. Choice: four in flight keep several dies busy; not varied.
const MANY: u32 = 3;
/// Minimum fraction of random reads at the limit, as a full write buffer has a plateau, too. Choice: a little below the half of a mixed load; not
/// varied.
const MIN_READS: f64 = 0.45;
/// With one request in flight flash exceeds this rate of reads. Choice: half of the rate of a card of application class A1, 1,500 a second
/// (SD Association); not varied.
pub(super) const SLOWEST_ALONE_A_SECOND: f64 = 750.0;
/// Small requests are below this fraction of the mean size. Choice: their bytes then hardly count; not varied.
const SMALL: f64 = 0.25;
/// Small requests take less than this multiple of the time of their bytes. Choice: tolerates noise of the interval; not varied.
const WORTH: f64 = 2.0;
/// An access of an arm or a flash card takes longer than this, in nanoseconds. Source: cards of application class A1 read 1,500 pages a
/// second (SD Association), 667 µs each, less a margin.
const QUICKEST_CARD_NS: f64 = 500e3;
/// Service time if unknown, in nanoseconds. Choice: the order of a read of flash, which is usual behind limits; not varied.
const USUAL_SERVICE_NS: f64 = 100e3;
/// Maximum of that as a fraction of the interval at the limit. Choice: the device must be faster than its limit; not varied.
const MAX_OF_INTERVAL: f64 = 0.5;
/// Fewer credits than this are noise: the amount that passes before the first window ends. Derived: the shortest of [`WINDOWS`].
const MIN_CREDITS: f64 = WINDOWS[0] as f64;
/// Size of the pieces in which EBS and Azure count requests. Source: AWS's documentation, Amazon EBS I/O characteristics and monitoring
/// (`disks/cloud-volume.toml`).
const PIECE_KIB: u32 = 256;
/// With a single request size, operations and bytes cannot be distinguished. Above this size in sectors the limit is taken to be on bytes:
/// the 3,000 operations and 125 MiB/s of EBS gp3 meet at 43 KiB. Choice: the next power of two above that, 64 KiB; not varied.
const LARGE: f64 = 128.0;

/// The quantity that is limited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    Requests,
    /// Operations of at most 256 KiB.
    Pieces,
    Bytes,
}

impl Counted {
    fn cost(self, access: &Access) -> f64 {
        match self {
            Counted::Requests => 1.0,
            Counted::Pieces => access.sectors.div_ceil(2 * u64::from(PIECE_KIB)) as f64,
            Counted::Bytes => access.sectors as f64 * 512.0,
        }
    }
}

/// Consecutive accesses, each of which was already queued when the previous one completed.
#[derive(Debug)]
struct Window {
    /// Indices of the accesses. The interval that ends at an access pays for the previous one.
    accesses: Vec<usize>,
    ns: f64,
    cost: f64,
}

impl Window {
    fn pace(&self) -> f64 {
        self.ns / self.cost
    }
}

/// A limit on operations or bytes per second.
#[derive(Debug)]
pub struct Limit {
    counted: Counted,
    windows: Vec<Window>,
    /// Nanoseconds per counted unit.
    pace: f64,
    uncertainty: f64,
    accesses: usize,
    burst: Option<Burst>,
    /// Minimum service time of the device behind the limit, in ns.
    service_ns: f64,
    /// Maximum number of requests in flight, including those held back by the limit.
    most: u32,
    /// The pace varies, so that service times of the device behind the limit do not show.
    is_irregular: bool,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    pace: f64,
    uncertainty: f64,
    credits: f64,
    accesses: usize,
}

/// The limit in front of the device, from accesses in order of completion; `None` if they show none.
pub fn found(accesses: &[Access]) -> Option<Limit> {
    let kept = kept(accesses);
    WINDOWS.iter().find_map(|&number| {
        let plateaus = counted(accesses, &kept).iter().filter_map(|&counted| {
            let windows = windows(accesses, &kept, counted, number);
            let (pace, spread) = plateau(&windows)?;
            Some((counted, windows, pace, spread))
        });
        let (counted, windows, pace, _) = plateaus.min_by(|a, b| a.3.total_cmp(&b.3))?;
        Limit::of(accesses, counted, windows, pace)
    })
}

/// A limit whose pace varies, as where timers are late in a virtual machine; `None` with too few scattered reads. Only for a device that cannot be
/// one without a limit, as this shows no plateau.
pub fn irregular(accesses: &[Access]) -> Option<Limit> {
    let kept = kept(accesses);
    let number = *WINDOWS.iter().rev().find(|&&number| kept.len() >= LASTING * number)?;
    if !are_scattered_reads(accesses, &kept, 0) {
        return None;
    }
    let each = counted(accesses, &kept).iter().map(|&counted| {
        let windows = windows(accesses, &kept, counted, number);
        let (mean, deviation) = mean_and_spread(windows.iter().map(Window::pace));
        (counted, windows, deviation / mean)
    });
    let (counted, windows, spread) = each.min_by(|a, b| a.2.total_cmp(&b.2))?;
    let (ns, cost) = windows.iter().fold((0.0, 0.0), |(ns, cost), window| (ns + window.ns, cost + window.cost));
    let pace = ns / cost;
    Some(Limit {
        counted,
        pace,
        uncertainty: 2.0 * spread / (windows.len() as f64).sqrt(),
        accesses: windows.iter().map(|window| window.accesses.len()).sum(),
        burst: None,
        service_ns: USUAL_SERVICE_NS.min(MAX_OF_INTERVAL * pace * cost / (windows.len() * number) as f64),
        most: most(accesses),
        is_irregular: true,
        windows,
    })
}

/// Indices of accesses that were queued when the previous one completed.
fn kept(accesses: &[Access]) -> Vec<usize> {
    (1..accesses.len()).filter(|&at| accesses[at].dispatched <= accesses[at - 1].completed).collect()
}

fn most(accesses: &[Access]) -> u32 {
    accesses.iter().map(|access| access.others + 1).max().unwrap_or(1)
}

/// Candidates for the limited quantity: several only if request sizes differ.
fn counted(accesses: &[Access], kept: &[usize]) -> &'static [Counted] {
    let (mean, spread) = mean_and_spread(kept.iter().map(|&at| accesses[at].sectors as f64));
    match spread < EVEN * mean {
        true if mean > LARGE => &[Counted::Bytes],
        true => &[Counted::Requests],
        false => &[Counted::Requests, Counted::Pieces, Counted::Bytes],
    }
}

fn windows(accesses: &[Access], kept: &[usize], counted: Counted, number: usize) -> Vec<Window> {
    let window = |part: &[usize]| {
        let each = part.iter().map(|&at| interval(accesses, counted, at));
        let (ns, cost) = each.fold((0.0, 0.0), |sum, (ns, cost)| (sum.0 + ns, sum.1 + cost));
        Window { accesses: part.to_vec(), ns, cost }
    };
    kept.chunks_exact(number).map(window).collect()
}

/// Time since the previous access completed in ns, and that access's cost, which is paid when the next one passes.
fn interval(accesses: &[Access], counted: Counted, at: usize) -> (f64, f64) {
    let before = &accesses[at - 1];
    ((accesses[at].completed - before.completed) as f64, counted.cost(before))
}

/// The slowest pace of a plateau, and its relative spread; `None` without a plateau.
fn plateau(windows: &[Window]) -> Option<(f64, f64)> {
    let mut slowest: Option<(f64, f64)> = None;
    let mut begin = 0;
    while begin + LASTING <= windows.len() {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        let level = windows[begin..].iter().take_while(|window| {
            (least, most) = (least.min(window.pace()), most.max(window.pace()));
            least > 0.0 && most <= least * (1.0 + LEVEL)
        });
        let end = begin + level.count();
        if end - begin < LASTING {
            begin += 1;
            continue;
        }
        let (pace, spread) = mean_and_spread(windows[begin..end].iter().map(Window::pace));
        if slowest.is_none_or(|(slowest, _)| pace > slowest) {
            slowest = Some((pace, spread / pace));
        }
        begin = end;
    }
    slowest
}

fn mean_and_spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let mean = statistics::mean(values.clone()).unwrap_or(0.0);
    let square = statistics::mean(values.map(|value| (value - mean).powi(2))).unwrap_or(0.0);
    (mean, square.sqrt())
}

/// Fraction of the spread by chance of this number of windows that hardly any device has: [`LESS_THAN_CHANCE`], or less for few windows,
/// whose spread may be small by chance. The square of a spread has a chi-squared distribution (quantile by Wilson and Hilferty, 1931).
fn less_than_chance(windows: usize) -> f64 {
    let ninth = 2.0 / (9.0 * (windows as f64 - 1.0).max(1.0));
    (1.0 - ninth - SURE_DEVIATIONS * ninth.sqrt()).max(0.0).powf(1.5).min(LESS_THAN_CHANCE)
}

impl Limit {
    fn of(accesses: &[Access], counted: Counted, windows: Vec<Window>, pace: f64) -> Option<Limit> {
        let near: Vec<&Window> = windows.iter().filter(|window| (window.pace() / pace - 1.0).abs() < NEAR).collect();
        let slow = windows.iter().filter(|window| window.pace() > QUICKER * pace).count();
        let (ns, cost) = near.iter().fold((0.0, 0.0), |(ns, cost), window| (ns + window.ns, cost + window.cost));
        let spread = mean_and_spread(near.iter().map(|window| window.pace())).1;
        let pace = ns / cost;
        let at_limit: Vec<usize> = near.iter().flat_map(|window| window.accesses.iter().copied()).collect();
        let single = at_limit.iter().map(|&at| interval(accesses, counted, at)).map(|(ns, cost)| ns / cost);
        let deviation = mean_and_spread(single).1;
        let by_chance = deviation / (windows.first()?.accesses.len() as f64).sqrt();
        let is_regular = deviation < EVEN * pace || spread < less_than_chance(near.len()) * by_chance;
        if !is_regular || (near.len() as f64) < MOSTLY * slow as f64 {
            return None;
        }
        let service_ns = unexplained(accesses, counted, pace, &at_limit)?;
        let burst = burst(accesses, counted, &windows, pace, &at_limit);
        Some(Limit {
            counted,
            pace,
            uncertainty: 2.0 * spread / (near.len() as f64).sqrt() / pace,
            accesses: at_limit.len(),
            burst,
            windows,
            service_ns,
            most: most(accesses),
            is_irregular: false,
        })
    }
}

/// Minimum service time in ns of the device behind the limit, if no saturated device has this pace; `None` if one may.
fn unexplained(accesses: &[Access], counted: Counted, pace: f64, at_limit: &[usize]) -> Option<f64> {
    let mut sizes: Vec<u64> = at_limit.iter().map(|&at| accesses[at].sectors).collect();
    let size = Rank::Above.of_ordered(&mut sizes, 0.5)?;
    // After a pause, the limit does not delay a request.
    let is_lone = |access: &&Access| {
        let paused = access.before.is_some_and(|(_, at, _)| (access.dispatched as f64) > at as f64 + pace * counted.cost(access));
        !access.write && access.others == 0 && !access.may_hit && paused && access.sectors >= size
    };
    let lone = accesses.iter().filter(is_lone);
    let mut lone: Vec<(f64, f64)> = lone.map(|access| (access.response_ms() * 1e6, pace * counted.cost(access))).collect();
    let limited_at = at_limit;
    let at_limit = || at_limit.iter().map(|&at| &accesses[at]);
    let usual =
        USUAL_SERVICE_NS.min(MAX_OF_INTERVAL * pace * at_limit().map(|access| counted.cost(access)).fold(f64::MAX, f64::min));
    let mut service_ns = usual;
    if lone.len() >= MIN_COUNT {
        lone.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (alone, limited) = Rank::Above.of_sorted(&lone, 0.5)?;
        service_ns = lone.iter().map(|(alone, _)| *alone).fold(f64::MAX, f64::min);
        if alone < QUICKER_ALONE * limited {
            return Some(service_ns);
        }
    }
    // Random reads of a hard disk are not this regular.
    let number = limited_at.len();
    let shows = |others: u32| are_scattered_reads(accesses, limited_at, others);
    let seconds = pace * at_limit().map(|access| counted.cost(access)).sum::<f64>() / 1e9;
    let a_second = number as f64 / seconds;
    let mb = at_limit().map(|access| access.sectors).sum::<u64>() as f64 * 512e-6;
    let is_slow = mb < SLOWEST_FLASH_MB_S * seconds && (counted == Counted::Bytes || a_second < SLOWEST_FLASH_A_SECOND);
    (is_slow && (shows(MANY) || counted == Counted::Bytes && is_by_bytes(accesses, pace, limited_at))
        || a_second < SLOWEST_ALONE_A_SECOND && counted != Counted::Bytes && shows(0))
    .then_some(service_ns)
}

/// Whether enough of the accesses at these indices are reads anywhere with at least `others` more in flight.
fn are_scattered_reads(accesses: &[Access], at: &[usize], others: u32) -> bool {
    let reads = at.iter().filter(|&&at| !accesses[at].write && !accesses[at].may_hit && accesses[at].others >= others).count();
    reads as f64 >= MIN_READS * at.len() as f64
}

/// Whether small requests take no longer than their bytes do at this pace. On a device this slow each would take additional time: an arm
/// must seek, and a card must find and read a page.
fn is_by_bytes(accesses: &[Access], pace: f64, at_limit: &[usize]) -> bool {
    let bytes = |at: usize| Counted::Bytes.cost(&accesses[at]);
    let mean = at_limit.iter().map(|&at| bytes(at)).sum::<f64>() / at_limit.len().max(1) as f64;
    // Measured from the previous completion to the next one, so that the order of service in between does not matter.
    let is_small = |at: usize| !accesses[at].write && bytes(at) < SMALL * mean;
    let is_among_large = |at: usize| is_small(at) && !is_small(at - 1) && at + 1 < accesses.len() && !is_small(at + 1);
    let excess = |at: usize| {
        let ns = (accesses[at + 1].completed - accesses[at - 1].completed) as f64;
        ns - pace * bytes(at - 1) - WORTH * pace * bytes(at)
    };
    let mut excesses: Vec<f64> = at_limit.iter().copied().filter(|&at| is_among_large(at)).map(excess).collect();
    if excesses.len() < MIN_COUNT {
        return false;
    }
    Rank::Above.of(&mut excesses, 0.5).is_some_and(|excess| excess < QUICKEST_CARD_NS)
}

/// The burst above the limit's rate before the plateau; `None` if there is none, or it is insignificant.
fn burst(accesses: &[Access], counted: Counted, windows: &[Window], pace: f64, at_limit: &[usize]) -> Option<Burst> {
    // A leaky bucket that drains at the limit's rate: at the plateau it is full, and its level is the number of credits.
    let (mut held, mut before) = (0.0_f64, accesses.first()?.completed);
    let mut levels = Vec::with_capacity(accesses.len());
    for access in accesses {
        held = (held - (access.completed - before) as f64 / pace).max(0.0) + counted.cost(access);
        before = access.completed;
        levels.push(held);
    }
    let mut full: Vec<f64> = at_limit.iter().map(|&at| levels[at]).collect();
    let credits = Rank::Above.of(&mut full, 0.9)?;
    let mean = statistics::mean(accesses.iter().map(|access| counted.cost(access)))?;
    let mut quicker: Vec<f64> = windows.iter().map(Window::pace).filter(|quick| *quick < QUICKER * pace).collect();
    if credits < MIN_CREDITS * mean || quicker.is_empty() {
        return None;
    }
    // The interquartile range, as a window may be partly on the plateau.
    let [first, pace, last] = [0.25, 0.5, 0.75].map(|share| Rank::Lower.of(&mut quicker, share).unwrap_or(pace));
    let each = windows.first().map_or(0, |window| window.accesses.len());
    Some(Burst { pace, uncertainty: (last - first) / pace, credits, accesses: quicker.len() * each })
}

impl Limit {
    /// The accesses as received by the device behind the limit: each is dispatched when the limit admits it.
    pub fn taken_off(&self, accesses: &[Access]) -> Vec<Access> {
        let mut behind = accesses.to_vec();
        let quickest = QUICKER * self.burst.map_or(self.pace, |burst| burst.pace);
        for window in self.windows.iter().filter(|window| window.pace() >= quickest) {
            // Fits a line at the window's pace: the access that completed earliest relative to it had the shortest service time.
            let (mut done, mut cost) = (0.0, 0.0);
            let places: Vec<(usize, f64, f64)> = window
                .accesses
                .iter()
                .map(|&at| {
                    let (ns, each) = interval(accesses, self.counted, at);
                    (done, cost) = (done + ns, cost + each);
                    (at, done, cost)
                })
                .collect();
            let pace = window.pace();
            let soonest = places.iter().map(|(_, done, cost)| done - cost * pace).fold(f64::MAX, f64::min);
            for (at, done, cost) in places {
                let varies = if self.is_irregular { 0.0 } else { done - cost * pace - soonest };
                let service = varies + self.service_ns;
                let Access { dispatched, completed, .. } = accesses[at];
                behind[at].dispatched = completed.saturating_sub(service as u64).clamp(dispatched, completed);
            }
        }
        in_context(behind)
    }

    /// Maximum number of requests in flight, including those held back by the limit.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The `[limits]` table of a profile.
    pub fn text(&self) -> String {
        // Serialization cannot fail for words and numbers in range; if it did, the profile would have no limit.
        format!("\n[limits]\n{}", toml::to_string(&self.specification()).unwrap_or_default())
    }

    /// The device with this limit in front of it.
    pub fn before(&self, device: Arc<dyn DeviceProfile>) -> Result<Arc<dyn DeviceProfile>, String> {
        Ok(Arc::new(LimitedProfile::new(device, self.specification().check()?)))
    }

    fn specification(&self) -> LimitsSpecification {
        // Rounded to thousandths, the resolution of a limit.
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let rate = |scale: f64, pace: f64| rounded(scale / pace);
        let burst = self.burst;
        match self.counted {
            Counted::Bytes => LimitsSpecification {
                mb_s: Some(rate(1e3, self.pace)),
                burst_mb_s: burst.map(|burst| rate(1e3, burst.pace)),
                burst_mb: burst.map(|burst| rounded(burst.credits / 1e6)),
                ..LimitsSpecification::default()
            },
            counted => LimitsSpecification {
                operations_per_second: Some(rate(1e9, self.pace)),
                operation_kib: (counted == Counted::Pieces).then_some(PIECE_KIB),
                burst_operations_per_second: burst.map(|burst| rate(1e9, burst.pace)),
                burst_operations: burst.map(|burst| rounded(burst.credits)),
                ..LimitsSpecification::default()
            },
        }
    }

    /// All parameters of the limit.
    pub fn findings(&self) -> Vec<Finding> {
        let LimitsSpecification { operations_per_second, mb_s, burst_mb_s, burst_operations_per_second, .. } = self.specification();
        let (name, rate, unit, burst_rate, of_credits, scale) = match self.counted {
            Counted::Bytes => (OF_BYTES, mb_s, "MB/s", burst_mb_s, "MB", 1e-6),
            _ => (OF_OPERATIONS, operations_per_second, "operations/s", burst_operations_per_second, "operations", 1.0),
        };
        let rate = rate.unwrap_or(0.0);
        let mut all = vec![Finding::number(name, rate, unit, self.uncertainty * rate, self.accesses)];
        if self.counted == Counted::Pieces {
            all.push(Finding::choice("size of an operation", &format!("{PIECE_KIB} KiB"), self.accesses));
        }
        if let (Some(Burst { uncertainty, credits, accesses, .. }), Some(rate)) = (self.burst, burst_rate) {
            let credits = credits * scale;
            all.push(Finding::number("burst", rate, unit, uncertainty * rate, accesses));
            all.push(Finding::number("credits", credits, of_credits, (self.uncertainty + uncertainty) * credits, accesses));
        }
        all
    }
}
