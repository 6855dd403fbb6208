//! Finds a limit of operations or bytes per second, as cloud volumes have it: a plateau that is too regular for a device.
//!
//! ```text
//! accesses that waited ─▶ windows of accesses ─▶ windows in a row of one pace: plateau ─▶ slower than the device can be? ─▶ limit
//!                                                                               └─ what was done above its rate before: credits
//! ```
//!
//! Services of a device vary, and their sum with them; what a limit lets pass in a window does not. A device that is kept full
//! also passes at least what it passes one at a time: where it does not, something before it holds requests up. Two things look like a
//! limit, and are kept out: a link or flash at its most, whose pace a lone request explains, and reads in order on a hard disk. Writes
//! alone prove nothing: a write buffer that is full has a plateau as well.

use std::sync::Arc;

use sim::device::limited::spec::LimitsSpecification;
use sim::profile::DeviceProfile;
use sim::profile::limited::LimitedProfile;

use super::access::{Access, in_context};
use super::findings::Finding;

/// Accesses of a window: as few as will do, more where services vary by more than a few of them take.
const WINDOWS: [usize; 3] = [16, 64, 256];
/// The number of windows in a row that make a plateau, and the largest relative difference of their times.
const LASTING: usize = 6;
const LEVEL: f64 = 0.04;
/// Windows this near to a plateau belong to it; what is quicker than a part of it is a burst. Of the others most belong to it.
const NEAR: f64 = 0.03;
const QUICKER: f64 = 0.9;
const MOSTLY: f64 = 0.7;
/// Services that have nothing to do with each other make sums vary with the root of their number; those of a plateau vary by less
/// than this part of that. Or each varies so little that no device is like it.
const LESS_THAN_CHANCE: f64 = 0.4;
const EVEN: f64 = 0.02;
/// A limit needs at least this number of accesses.
const MIN_COUNT: usize = 10;
/// A lone read takes less than this part of the time that one takes at the limit.
const QUICKER_ALONE: f64 = 0.7;
/// Any flash passes more reads, and more MB/s, when `MANY` wait: even drives with SATA's first speed and few dies. One at a time it
/// still passes more than the other number.
const SLOWEST_FLASH_A_SECOND: f64 = 4_000.0;
const SLOWEST_FLASH_MB_S: f64 = 200.0;
const MANY: u32 = 3;
const SLOWEST_ALONE_A_SECOND: f64 = 500.0;
/// Small requests have less than this part of the mean size, and take less than this multiple of what their bytes are worth.
const SMALL: f64 = 0.25;
const WORTH: f64 = 2.0;
/// Beyond that an arm or a card needs more: cards of application class A1 read 1,500 pages a second (SD Association), in 667 µs each.
const QUICKEST_CARD_NS: f64 = 500e3;
/// A service of unknown length, and the most of the time between two accesses at the limit.
const USUAL_SERVICE_NS: f64 = 100e3;
const MAX_OF_INTERVAL: f64 = 0.5;
/// Credits below this are chance: what passes before the first window is over.
const MIN_CREDITS: f64 = 16.0;
/// EBS and Azure count requests in pieces of 256 KiB.
const PIECE_KIB: u32 = 256;
/// Requests of one size do not separate operations from bytes. Where they have more sectors than this it is bytes: the 3,000 operations and
/// 125 MiB/s of EBS gp3 meet at 43 KiB.
const LARGE: f64 = 128.0;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    Requests,
    /// Of 256 KiB at most.
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

/// Accesses one after the other, each of which waited when the one before it was done.
#[derive(Debug)]
struct Window {
    /// By their place; each interval ends at one of these, and what was done before it was paid for in it.
    accesses: Vec<usize>,
    ns: f64,
    cost: f64,
}

impl Window {
    fn pace(&self) -> f64 {
        self.ns / self.cost
    }
}

/// A limit.
#[derive(Debug)]
pub struct Limit {
    counted: Counted,
    windows: Vec<Window>,
    /// Nanoseconds for each that is counted.
    pace: f64,
    uncertainty: f64,
    accesses: usize,
    burst: Option<Burst>,
    /// Of the device behind the limit, at least.
    service_ns: f64,
    /// At the device at once.
    most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    pace: f64,
    uncertainty: f64,
    credits: f64,
    accesses: usize,
}

/// The limit of these accesses, which are in the order of completion.
pub fn found(accesses: &[Access]) -> Option<Limit> {
    let kept = |at: &usize| accesses[*at].dispatched <= accesses[*at - 1].completed;
    let kept: Vec<usize> = (1..accesses.len()).filter(kept).collect();
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

/// Whether operations or bytes are limited, if the sizes of requests differ.
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

/// The time since the access before was done, and what that cost: it is paid for when the next one passes.
fn interval(accesses: &[Access], counted: Counted, at: usize) -> (f64, f64) {
    let before = &accesses[at - 1];
    ((accesses[at].completed - before.completed) as f64, counted.cost(before))
}

/// The slowest pace at which windows last, and their spread as a part of it.
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
    let number = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / number;
    let square = values.map(|value| (value - mean).powi(2)).sum::<f64>() / number;
    (mean, square.sqrt())
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
        let is_regular = deviation < EVEN * pace || spread < LESS_THAN_CHANCE * by_chance;
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
            most: accesses.iter().map(|access| access.others + 1).max().unwrap_or(1),
        })
    }
}

/// If no device that is kept full has this pace: what a service of it takes at least.
fn unexplained(accesses: &[Access], counted: Counted, pace: f64, at_limit: &[usize]) -> Option<f64> {
    let mut sizes: Vec<u64> = at_limit.iter().map(|&at| accesses[at].sectors).collect();
    let middle = sizes.len() / 2;
    let size = *sizes.select_nth_unstable(middle).1;
    // After a pause the limit holds nothing up.
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
        let (alone, limited) = lone[lone.len() / 2];
        service_ns = lone.iter().map(|(alone, _)| *alone).fold(f64::MAX, f64::min);
        if alone < QUICKER_ALONE * limited {
            return Some(service_ns);
        }
    }
    // A hard disk's reads are not regular unless they go on where others were.
    let number = at_limit().count();
    let mostly =
        |others: u32| 2 * at_limit().filter(|access| !access.write && !access.may_hit && access.others >= others).count() >= number;
    let seconds = pace * at_limit().map(|access| counted.cost(access)).sum::<f64>() / 1e9;
    let a_second = number as f64 / seconds;
    let is_slow = match counted {
        Counted::Bytes => at_limit().map(|access| access.sectors).sum::<u64>() as f64 * 512e-6 < SLOWEST_FLASH_MB_S * seconds,
        _ => a_second < SLOWEST_FLASH_A_SECOND,
    };
    (is_slow && (mostly(MANY) || counted == Counted::Bytes && is_by_bytes(accesses, pace, limited_at))
        || a_second < SLOWEST_ALONE_A_SECOND && counted != Counted::Bytes && mostly(0))
    .then_some(service_ns)
}

/// Whether small requests take no longer than their bytes are worth at this pace. On a device that slow each would take a time of its own:
/// an arm has to move, and a card has to find and read a page.
fn is_by_bytes(accesses: &[Access], pace: f64, at_limit: &[usize]) -> bool {
    let bytes = |at: usize| Counted::Bytes.cost(&accesses[at]);
    let mean = at_limit.iter().map(|&at| bytes(at)).sum::<f64>() / at_limit.len().max(1) as f64;
    // From the one before to the one after it: how much longer each of these is at the device does not matter then.
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
    let middle = excesses.len() / 2;
    *excesses.select_nth_unstable_by(middle, f64::total_cmp).1 < QUICKEST_CARD_NS
}

/// What was done above the rate of the plateau before it was reached, if that was much.
fn burst(accesses: &[Access], counted: Counted, windows: &[Window], pace: f64, at_limit: &[usize]) -> Option<Burst> {
    // A bucket that leaks at the limit's rate: at the plateau it is full, and holds the credits.
    let (mut held, mut before) = (0.0_f64, accesses.first()?.completed);
    let mut levels = Vec::with_capacity(accesses.len());
    for access in accesses {
        held = (held - (access.completed - before) as f64 / pace).max(0.0) + counted.cost(access);
        before = access.completed;
        levels.push(held);
    }
    let mut full: Vec<f64> = at_limit.iter().map(|&at| levels[at]).collect();
    let most = full.len() * 9 / 10;
    let credits = *full.select_nth_unstable_by(most, f64::total_cmp).1;
    let mean = accesses.iter().map(|access| counted.cost(access)).sum::<f64>() / accesses.len() as f64;
    let mut quicker: Vec<f64> = windows.iter().map(Window::pace).filter(|quick| *quick < QUICKER * pace).collect();
    if credits < MIN_CREDITS * mean || quicker.is_empty() {
        return None;
    }
    // The middle half: a window may be in part of the plateau.
    quicker.sort_by(f64::total_cmp);
    let [first, pace, last] = [1, 2, 3].map(|quarter| quicker[(quicker.len() - 1) * quarter / 4]);
    let each = windows.first().map_or(0, |window| window.accesses.len());
    Some(Burst { pace, uncertainty: (last - first) / pace, credits, accesses: quicker.len() * each })
}

impl Limit {
    /// The accesses as the device behind the limit saw them, which gets each when it passes.
    pub fn taken_off(&self, accesses: &[Access]) -> Vec<Access> {
        let mut behind = accesses.to_vec();
        let quickest = QUICKER * self.burst.map_or(self.pace, |burst| burst.pace);
        for window in self.windows.iter().filter(|window| window.pace() >= quickest) {
            // On a line at the window's pace: the one that was done soonest had the shortest service.
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
                let service = done - cost * pace - soonest + self.service_ns;
                let Access { dispatched, completed, .. } = accesses[at];
                behind[at].dispatched = completed.saturating_sub(service as u64).clamp(dispatched, completed);
            }
        }
        in_context(behind)
    }

    /// Requests at the device at once, those that waited at the limit included.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// As a table of a profile.
    pub fn text(&self) -> String {
        // Words and numbers within the ranges of their keys can be written; if they could not, the device would be without a limit.
        format!("\n[limits]\n{}", toml::to_string(&self.specification()).unwrap_or_default())
    }

    /// The device behind it, with it.
    pub fn before(&self, device: Arc<dyn DeviceProfile>) -> Result<Arc<dyn DeviceProfile>, String> {
        Ok(Arc::new(LimitedProfile::new(device, self.specification().check()?)))
    }

    fn specification(&self) -> LimitsSpecification {
        // In thousandths, as a limit counts them.
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

    /// Everything that was found.
    pub fn findings(&self) -> Vec<Finding> {
        let LimitsSpecification { operations_per_second, mb_s, burst_mb_s, burst_operations_per_second, .. } = self.specification();
        let (name, rate, unit, burst_rate, of_credits, scale) = match self.counted {
            Counted::Bytes => ("limit of bytes", mb_s, "MB/s", burst_mb_s, "MB", 1e-6),
            _ => ("limit of operations", operations_per_second, "operations/s", burst_operations_per_second, "operations", 1.0),
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
