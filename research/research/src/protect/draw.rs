//! Random cases of a victim and its neighbours on a device, with the times at which each is active.

use anyhow::Context as _;
use block::{Nanos, Roster, Tenant};
use guarantee::tenants::Reference;
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled};
use testbed::jobs::JobsLoad;
use testbed::load::Load as _;
use testbed::world::World;

use crate::guarantees::draw;
use crate::worlds::Which;

const DIRECT: &str = "ioengine=libaio\ndirect=1\n";

/// A kind of load: its name, and a generator of its job's options.
struct LoadKind {
    name: &'static str,
    draw: fn(&mut Xoshiro256PlusPlus) -> String,
}

/// The guarantee of a victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promised {
    /// The p99 response time of its reads.
    ReadP99,
    /// The p99 response time of its calls of fsync.
    FlushP99,
    /// Requests per second.
    Iops,
    /// This share of the device time that it uses alone.
    Share(f64),
    /// Performance as on a slower disk.
    Reference,
}

/// Kinds of guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromiseKind {
    /// The p99 response time of reads or of calls of fsync.
    P99,
    /// Requests per second.
    Least,
    /// A share of the device time.
    Share,
    /// Performance as on a reference disk.
    Reference,
}

impl PromiseKind {
    /// All kinds, by name.
    pub const ALL: [(&str, PromiseKind); 4] = [
        ("p99", PromiseKind::P99),
        ("least", PromiseKind::Least),
        ("share", PromiseKind::Share),
        ("reference", PromiseKind::Reference),
    ];
    /// The kinds used by default.
    pub const USUAL: [PromiseKind; 2] = [PromiseKind::P99, PromiseKind::Least];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl Promised {
    /// Its kind.
    pub fn kind(self) -> PromiseKind {
        match self {
            Promised::ReadP99 | Promised::FlushP99 => PromiseKind::P99,
            Promised::Iops => PromiseKind::Least,
            Promised::Share(_) => PromiseKind::Share,
            Promised::Reference => PromiseKind::Reference,
        }
    }
}

/// Shares of the device time that the victim uses alone.
const SHARES: [f64; 3] = [0.3, 0.5, 0.7];
/// Maximum number of reference disks that are tried until one is slow enough.
const REFERENCES: u32 = 16;

/// Loads of victims, with the guarantees that apply to each.
static VICTIMS: &[(LoadKind, &[Promised])] = &[
    (
        LoadKind {
            name: "reader",
            draw: |random| {
                let (kib, depth) = (one_of(random, &[4, 8, 16]), random.random_range(1..=8));
                format!("{DIRECT}rw=randread\nbs={kib}k\niodepth={depth}\n")
            },
        },
        &[Promised::ReadP99, Promised::Iops],
    ),
    (
        LoadKind {
            name: "log",
            draw: |random| format!("ioengine=psync\nrw=write\nbs={}k\nfsync=1\n", one_of(random, &[4, 8, 16])),
        },
        &[Promised::FlushP99, Promised::Iops],
    ),
    (
        LoadKind {
            name: "oltp",
            draw: |random| {
                let (reads, depth) = (one_of(random, &[70, 80, 90]), random.random_range(1..=8));
                format!("{DIRECT}rw=randrw\nrwmixread={reads}\nbs=8k\niodepth={depth}\n")
            },
        },
        &[Promised::ReadP99, Promised::Iops],
    ),
    (
        LoadKind {
            name: "pauses",
            draw: |random| {
                let (blocks, ms, kib) = (one_of(random, &[1, 5, 20]), one_of(random, &[5, 20, 100]), one_of(random, &[4, 8, 16]));
                format!("ioengine=psync\ndirect=1\nrw=randread\nbs={kib}k\nthinktime={ms}ms\nthinktime_blocks={blocks}\n")
            },
        },
        &[Promised::ReadP99],
    ),
];

/// Loads of neighbours.
static NEIGHBOURS: &[LoadKind] = &[
    LoadKind {
        name: "large-writes",
        draw: |random| {
            let (pattern, depth) = (one_of(random, &["write", "randwrite"]), one_of(random, &[4, 8, 16, 32]));
            format!("{DIRECT}rw={pattern}\nbs=1m\niodepth={depth}\n")
        },
    },
    LoadKind {
        name: "large-reads",
        draw: |random| {
            let (kib, depth) = (one_of(random, &[256, 512]), one_of(random, &[4, 8, 16]));
            format!("{DIRECT}rw=randread\nbs={kib}k\niodepth={depth}\n")
        },
    },
    LoadKind {
        name: "stream",
        draw: |random| {
            let (kib, depth) = (one_of(random, &[128, 1024]), random.random_range(1..=4));
            format!("{DIRECT}rw=read\nbs={kib}k\niodepth={depth}\n")
        },
    },
    LoadKind {
        name: "cache-writer",
        draw: |random| {
            let (pattern, kib) = (one_of(random, &["write", "write", "randwrite"]), one_of(random, &[64, 256, 1024]));
            format!("ioengine=psync\nrw={pattern}\nbs={kib}k\n")
        },
    },
    LoadKind { name: "scan", draw: |_| "ioengine=psync\nrw=read\nbs=128k\n".to_owned() },
    LoadKind { name: "log", draw: |random| format!("ioengine=psync\nrw=write\nbs={}k\nfsync=1\n", one_of(random, &[4, 16])) },
];

/// Seconds of a run: 5% of those that count are two, so that a single one is not decisive.
const SECONDS: u64 = 60;
/// The weight of the victim relative to others: ten times the default of `io.bfq.weight` and `io.weight`.
const WEIGHT: u32 = 10;

/// A time span in seconds: from and to.
pub type Span = (u64, u64);

/// A random case, without the figure of its guarantee.
pub struct Drawn {
    /// The device and the host, with a roster in which the victim is first.
    pub world: World,
    /// The job file.
    pub text: String,
    /// The job file placed on the device.
    pub load: JobsLoad,
    /// The victim's guarantee.
    pub promised: Promised,
    /// Candidates for the reference disk.
    pub references: Vec<Reference>,
    /// When the victim pauses.
    pub pause: Span,
    /// When each neighbour is active; twice each.
    pub spans: Vec<[Span; 2]>,
    /// Length of the run in seconds.
    pub seconds: u64,
    /// A short description.
    pub about: String,
    /// The scheduler of all runs that do not specify one.
    pub scheduler: &'static str,
}

/// Guarantees of these kinds that a victim may have. A log in the page cache has neither a share nor a reference: the kernel writes it.
fn promises(victim: &(LoadKind, &[Promised]), kinds: &[PromiseKind]) -> Vec<Promised> {
    let further = [Promised::Share(0.0), Promised::Reference];
    let further = further.iter().filter(|_| victim.0.name != "log");
    victim.1.iter().chain(further).copied().filter(|promised| kinds.contains(&promised.kind())).collect()
}

/// Generates a case with a guarantee of one of these kinds.
///
/// # Errors
/// It cannot be placed on the device.
pub fn case(
    (which, kinds): (Which, &[PromiseKind]),
    random: &mut Xoshiro256PlusPlus,
    seed: u64,
    number: u32,
) -> anyhow::Result<Drawn> {
    let mut world = draw::device(which, random, seed, number)?;
    let is_flash = draw::is_flash(&world);
    let seconds = SECONDS;
    let scheduler = if happens(random, if is_flash { 0.3 } else { 0.8 }) { "mq-deadline" } else { "none" };
    let victims: Vec<_> = VICTIMS.iter().filter(|victim| !promises(victim, kinds).is_empty()).collect();
    let drawn = victims.get(random.random_range(0..victims.len().max(1))).context("no kind of promise")?;
    let (victim, promised) = (&drawn.0, one_of(random, &promises(drawn, kinds)));
    let count = random.random_range(1..=4);
    let size = draw::size_mib(&world, 2 * (count + 1));
    let options = (victim.draw)(random);
    let from = seconds * 2 / 5 + random.random_range(0..=seconds / 20);
    let pause = (from, from + 4 + random.random_range(0..=2));
    let section =
        |name: String, (from, to): Span, options: &str| format!("[{name}]\nstartdelay={from}\nruntime={}\n{options}", to - from);
    let mut text = format!("[global]\ntime_based\nsize={size}m\n");
    text += &section("victim-0".to_owned(), (0, pause.0), &options);
    text += &section("victim-1".to_owned(), (pause.1, seconds), &options);
    let mut about = format!("{} ({}) beside", victim.name, options.replace('\n', " ").trim());
    let mut spans = Vec::new();
    for neighbour in 0..count {
        let kind = &NEIGHBOURS[random.random_range(0..NEIGHBOURS.len())];
        let options = (kind.draw)(random);
        // The first neighbour arrives early and is active while the victim pauses.
        let late = if neighbour == 0 { 0 } else { random.random_range(0..=seconds / 6) };
        let arrives = seconds / 15 + random.random_range(0..=3) + late;
        let leaves = pause.1 + random.random_range(2..=seconds / 6);
        let returns = leaves + scaled(random, 3.0, seconds as f64 / 6.0).round() as u64;
        let both = [(arrives, leaves), (returns, seconds)];
        for (index, span) in both.into_iter().enumerate() {
            text += &section(format!("n{neighbour}-{index}"), span, &options);
        }
        spans.push(both);
        about += &format!(" {} ({});", kind.name, options.replace('\n', " ").trim());
    }
    let load = JobsLoad::new(&text, "drawn", seed, &world)?;
    world.roster = Some(roster(&load, count)?);
    let promised = if let Promised::Share(_) = promised { Promised::Share(one_of(random, &SHARES)) } else { promised };
    let mut references = Vec::new();
    if promised == Promised::Reference {
        for further in 0..REFERENCES {
            let reference = draw::reference(which, random, is_flash, seed, number.wrapping_mul(REFERENCES) + further)?;
            if reference.capacity_sectors().is_none_or(|sectors| sectors >= world.profile.capacity_sectors()) {
                references.push(reference);
            }
        }
    }
    about = format!("{}, {scheduler}: {}", world.profile.name(), about.trim_end_matches(';'));
    Ok(Drawn { world, text, load, promised, references, pause, spans, seconds, about, scheduler })
}

/// The victim and its neighbours, each with the location of its files: write-back is attributed to the tenant that dirtied the pages.
fn roster(load: &JobsLoad, neighbours: usize) -> anyhow::Result<Roster> {
    let mut tenants = vec![Tenant::new("victim").with_weight(WEIGHT)];
    tenants.extend((0..neighbours).map(|number| Tenant::new(format!("n{number}"))));
    let (mut streams, mut volumes) = (Vec::new(), Vec::new());
    for (number, tenant) in tenants.iter().enumerate() {
        for stream in [0, 1].into_iter().flat_map(|index| load.streams_of(&format!("{}-{index}", tenant.name))) {
            streams.push((stream, number));
            volumes.extend(load.sectors_of(stream).into_iter().map(|sectors| (sectors, number)));
        }
    }
    Ok(Roster::new(tenants, volumes, &streams, 1)?)
}

impl Drawn {
    /// Whether a neighbour is active throughout this second.
    pub fn has_neighbours(&self, second: u64) -> bool {
        self.spans.iter().flatten().any(|&(from, to)| (from..to).contains(&second))
    }

    /// Whether the load changed within the last `before` seconds: a neighbour came or left, or the pause began or ended.
    pub fn has_changed(&self, second: u64, before: u64) -> bool {
        let changes = self.spans.iter().flatten().flat_map(|&(from, to)| [from, to]).chain([self.pause.0, self.pause.1, 0]);
        changes.into_iter().any(|change| change <= second && second < change + before)
    }

    /// Whether a neighbour arrives, or the victim returns, at the beginning of this second.
    pub fn is_arrival(&self, second: u64) -> bool {
        self.spans.iter().flatten().any(|&(from, _)| from == second) || self.pause.1 == second || second == 0
    }

    /// When the first neighbour arrives, in seconds.
    pub fn arrival(&self) -> u64 {
        self.spans.iter().flatten().map(|&(from, _)| from).min().unwrap_or(0)
    }

    /// Whether the victim pauses throughout this second and the one before.
    pub fn is_pause(&self, second: u64) -> bool {
        (self.pause.0 + 1..self.pause.1).contains(&second)
    }

    /// The end of the run.
    pub fn end(&self) -> Nanos {
        Nanos::from_millis(1_000 * self.seconds)
    }
}
