//! The fitted parameters: figures and rules of a hard disk's profile that a parameter file leaves out or gets wrong.

use sim::device::hdd::mechanics::curve;
use sim::device::hdd::spec::{HddSpecification, ReadAhead, ReadAheadTrigger, Seek, WriteCache};

/// A profile during fitting.
#[derive(Clone)]
pub struct Candidate {
    /// The profile without the fitted changes to seeks of writes.
    spec: HddSpecification,
    /// Added to every seek of a write, in ms.
    write_seek_shift: f64,
    /// Added to a seek of a write over the whole stroke, in ms. A shorter seek gets it times the square root of its part of the
    /// stroke, which is how seek times grow.
    write_seek_tilt: f64,
}

impl Candidate {
    /// The original profile.
    pub fn new(spec: &HddSpecification) -> Candidate {
        Candidate { spec: spec.clone(), write_seek_shift: 0.0, write_seek_tilt: 0.0 }
    }

    /// The profile with all changes.
    pub fn specification(&self) -> HddSpecification {
        let mut spec = self.spec.clone();
        if self.write_seek_shift != 0.0 || self.write_seek_tilt != 0.0 {
            spec.write_seek = self.write_seek();
        }
        spec
    }

    /// The seek curve of writes: the profile's, or that of reads plus settling, shifted and tilted. `None` if it is invalid.
    fn write_seek(&self) -> Option<Seek> {
        let spec = &self.spec;
        let cylinders = spec.geometry.cylinders;
        let settle = if spec.write_seek.is_some() { 0.0 } else { spec.mechanics.write_settle_ms };
        let base = spec.write_seek.as_ref().unwrap_or(&spec.seek);
        let time = curve(base, cylinders).ok()?;
        let stroke = f64::from(cylinders.max(2) - 1);
        let point = |distance: u32| {
            let part = (f64::from(distance) / stroke).sqrt();
            let millis = time(distance) + settle + self.write_seek_shift + part * self.write_seek_tilt;
            (distance, rounded(millis.max(0.0), 1e-3))
        };
        Some(Seek::Table { points: distances(base, cylinders).into_iter().map(point).collect() })
    }
}

/// Distances at which to tabulate a curve: those of its own table, or a ladder that resolves a square root.
fn distances(seek: &Seek, cylinders: u32) -> Vec<u32> {
    if let Seek::Table { points } = seek {
        return points.iter().map(|point| point.0).filter(|&distance| distance > 0 && distance < cylinders).collect();
    }
    let mut distances: Vec<u32> = (1..cylinders.min(16)).collect();
    while let Some(&last) = distances.last()
        && last + 1 < cylinders
    {
        distances.push((last + last / 8).max(last + 1).min(cylinders - 1));
    }
    distances
}

/// Rounds to a multiple of `unit`.
pub fn rounded(value: f64, unit: f64) -> f64 {
    // Dividing by a whole number yields the float nearest to the decimal fraction; multiplying by its inverse does not.
    (value / unit).round() / (1.0 / unit).round()
}

/// A parameter that can be fitted.
pub struct Parameter {
    /// Its key in the profile.
    pub key: &'static str,
    /// The values that it can have.
    pub kind: Kind,
    /// Its value in a candidate; for a rule, the index into its names.
    pub get: fn(&Candidate) -> f64,
    /// Sets it.
    pub set: fn(&mut Candidate, f64),
}

/// The values that a parameter can have.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A number of ms.
    Number {
        /// Half of the longest step, in ms.
        scale: f64,
        /// The lowest value.
        least: f64,
        /// Unit to which the result is rounded.
        unit: f64,
    },
    /// A rule: the index of one of these names.
    Rule(&'static [&'static str]),
}

/// An overhead or a time of the arm: may be wrong by a millisecond; given to the microsecond.
const TIME: Kind = Kind::Number { scale: 1.0, least: 0.0, unit: 1e-3 };
/// Like [`TIME`], for values that may be negative.
const SIGNED: Kind = Kind::Number { scale: 1.0, least: -1e3, unit: 1e-3 };
/// The time of a sector on the bus.
const BUS: Kind = Kind::Number { scale: 0.1, least: 0.0, unit: 1e-5 };
/// Yes or no.
const FLAG: Kind = Kind::Rule(&["false", "true"]);

const TRIGGERS: [ReadAheadTrigger; 2] = [ReadAheadTrigger::EveryRead, ReadAheadTrigger::AfterSequence];
const READ_AHEADS: [ReadAhead; 5] =
    [ReadAhead::None, ReadAhead::Track, ReadAhead::Cylinder, ReadAhead::Segment, ReadAhead::NextTrack];

/// A number that is a field of the specification.
macro_rules! number {
    ($key:literal, $kind:expr, $($field:ident).+) => {
        Parameter {
            key: $key,
            kind: $kind,
            get: |candidate| candidate.spec.$($field).+,
            set: |candidate, value| candidate.spec.$($field).+ = value,
        }
    };
}

/// A yes or no that is a field of the specification.
macro_rules! flag {
    ($key:literal, $($field:ident).+) => {
        Parameter {
            key: $key,
            kind: FLAG,
            get: |candidate| f64::from(u8::from(candidate.spec.$($field).+)),
            set: |candidate, value| candidate.spec.$($field).+ = value > 0.5,
        }
    };
}

/// The parameters of a profile, without those that its drive does not use.
pub fn parameters(spec: &HddSpecification) -> Vec<Parameter> {
    let mut all = vec![
        number!("bus.read_sector_ms", BUS, bus.read_sector_ms),
        number!("bus.write_sector_ms", BUS, bus.write_sector_ms),
        number!("overheads.read_hit_after_read_ms", TIME, overheads.read_hit_after_read_ms),
        number!("overheads.read_hit_after_write_ms", TIME, overheads.read_hit_after_write_ms),
        number!("overheads.read_miss_after_read_ms", TIME, overheads.read_miss_after_read_ms),
        number!("overheads.read_miss_after_write_ms", TIME, overheads.read_miss_after_write_ms),
        number!("mechanics.reacquire_ms", TIME, mechanics.reacquire_ms),
        number!("mechanics.write_settle_ms", SIGNED, mechanics.write_settle_ms),
        Parameter {
            key: "write_seek, every distance",
            kind: SIGNED,
            get: |candidate| candidate.write_seek_shift,
            set: |candidate, value| candidate.write_seek_shift = value,
        },
        Parameter {
            key: "write_seek, full stroke",
            kind: SIGNED,
            get: |candidate| candidate.write_seek_tilt,
            set: |candidate, value| candidate.write_seek_tilt = value,
        },
    ];
    // The drive uses one of two pairs of overheads for all writes: the other has no effect.
    if spec.cache.write_cache == WriteCache::Off {
        all.push(number!("overheads.write_miss_after_read_ms", TIME, overheads.write_miss_after_read_ms));
        all.push(number!("overheads.write_miss_after_write_ms", TIME, overheads.write_miss_after_write_ms));
    } else {
        all.push(number!("overheads.write_hit_after_read_ms", TIME, overheads.write_hit_after_read_ms));
        all.push(number!("overheads.write_hit_after_write_ms", TIME, overheads.write_hit_after_write_ms));
    }
    if spec.overheads.extra_write_disconnect.is_some() {
        all.push(Parameter {
            key: "overheads.extra_write_disconnect.command_ms",
            kind: TIME,
            get: |candidate| candidate.spec.overheads.extra_write_disconnect.as_ref().map_or(0.0, |extra| extra.command_ms),
            set: |candidate, value| {
                if let Some(extra) = &mut candidate.spec.overheads.extra_write_disconnect {
                    extra.command_ms = value;
                }
            },
        });
    }
    all.extend([
        Parameter {
            key: "cache.read_ahead_trigger",
            kind: Kind::Rule(&["every-read", "after-sequence"]),
            get: |candidate| position(&TRIGGERS, &candidate.spec.cache.read_ahead_trigger),
            set: |candidate, value| candidate.spec.cache.read_ahead_trigger = TRIGGERS[value as usize],
        },
        Parameter {
            key: "cache.read_ahead",
            kind: Kind::Rule(&["none", "track", "cylinder", "segment", "next-track"]),
            get: |candidate| position(&READ_AHEADS, &candidate.spec.cache.read_ahead),
            set: |candidate, value| candidate.spec.cache.read_ahead = READ_AHEADS[value as usize],
        },
        flag!("cache.read_ahead_over_requested", cache.read_ahead_over_requested),
        flag!("cache.read_ahead_after_hit", cache.read_ahead_after_hit),
        flag!("cache.joins_read_ahead", cache.joins_read_ahead),
        flag!("cache.read_hits_on_written_data", cache.read_hits_on_written_data),
    ]);
    all
}

fn position<T: PartialEq>(all: &[T], value: &T) -> f64 {
    all.iter().position(|other| other == value).unwrap_or(0) as f64
}
