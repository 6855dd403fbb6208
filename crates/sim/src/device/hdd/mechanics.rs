//! Spindle and arm: the time until a sector passes the head, in whole nanoseconds.

use std::cell::Cell;

use block::Nanos;

use super::layout::{Angle, HddLayout, SectorLocation};
use super::spec::{Geometry, MechanicsSpecification, Seek, ZoneSpecification};
use crate::device::reciprocal::Reciprocal64;

/// Tolerance for catching a sector: far above rounding errors, far below the time of a sector.
const TOLERANCE_NS: u64 = 200;

/// Position of the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// Cylinder.
    pub cylinder: u32,
    /// Active head.
    pub head: u16,
}

impl From<&SectorLocation> for Arm {
    fn from(place: &SectorLocation) -> Arm {
        Arm { cylinder: place.cylinder, head: place.head }
    }
}

/// Time that an access needs to reach its first sector, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positioning {
    /// Seek, head switch and settling.
    pub seek: u64,
    /// Rotational latency.
    pub rotation: u64,
}

impl Positioning {
    /// Sum of both.
    pub fn total(&self) -> u64 {
        self.seek + self.rotation
    }
}

/// How an access relates to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// A new access: even on the current cylinder the track must be reacquired.
    Fresh,
    /// Continues where the last transfer ended.
    Continuing,
}

/// Precomputed model of spindle and arm. Times are in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// One revolution.
    pub period: u64,
    by_period: Reciprocal64,
    head_switch: u64,
    /// Negative on drives that can write earlier than read.
    write_settle: i64,
    reacquire: u64,
    /// See [`MechanicsSpecification::minimum_write_seek_ms`].
    pub minimum_write_seek: u64,
    /// Seek time by distance in cylinders.
    seek: Box<[u32]>,
    /// Seek time of a write, including settling, by distance; `None` if it was not measured separately.
    write_seek: Option<Box<[u32]>>,
}

impl Mechanics {
    /// Precomputes the tables.
    ///
    /// # Errors
    /// A value is out of range; the message names its key.
    pub fn new(
        spec: &MechanicsSpecification,
        seek: &Seek,
        write_seek: Option<&Seek>,
        geometry: &Geometry,
    ) -> Result<Mechanics, String> {
        let period = (60e9 / spec.rotation_rpm).round() as u64;
        Ok(Mechanics {
            period,
            by_period: Reciprocal64::new(period),
            head_switch: duration("mechanics.head_switch_ms", spec.head_switch_ms)?,
            write_settle: signed_duration("mechanics.write_settle_ms", spec.write_settle_ms)?,
            reacquire: duration("mechanics.reacquire_ms", spec.reacquire_ms)?,
            minimum_write_seek: duration("mechanics.minimum_write_seek_ms", spec.minimum_write_seek_ms)?,
            seek: seek_table("seek", seek, geometry.cylinders)?,
            write_seek: write_seek.map(|seek| seek_table("write_seek", seek, geometry.cylinders)).transpose()?,
        })
    }

    /// Time for seek, head switch and settling, from the position of the arm to a sector, in nanoseconds.
    pub fn seek_time(&self, arm: Arm, place: &SectorLocation, motion: Motion, write: bool) -> u64 {
        let distance = arm.cylinder.abs_diff(place.cylinder);
        if write
            && distance > 0
            && let Some(settled) = &self.write_seek
        {
            let head_switch = if arm.head == place.head { 0 } else { self.head_switch.saturating_add_signed(self.write_settle) };
            return u64::from(settled[distance as usize]).max(head_switch);
        }
        let mut seek = if distance > 0 {
            u64::from(self.seek[distance as usize])
        } else if motion == Motion::Fresh {
            self.reacquire
        } else {
            0
        };
        if arm.head != place.head {
            seek = seek.max(self.head_switch);
        }
        if write && seek > 0 { seek.saturating_add_signed(self.write_settle) } else { seek }
    }

    /// Time from `at` until the sector at `place` begins to pass the head, in nanoseconds.
    pub fn position(&self, at: u64, arm: Arm, place: &SectorLocation, motion: Motion, write: bool) -> Positioning {
        let seek = self.seek_time(arm, place, motion, write);
        Positioning { seek, rotation: self.wait_for(at.saturating_add(seek), place.angle) }
    }

    /// Upper bound of the positioning time of any access, in nanoseconds.
    pub fn longest_access(&self) -> u64 {
        let longest = |table: &[u32]| table.iter().copied().max().map_or(0, u64::from);
        let write = self.write_seek.as_deref().map_or(0, longest);
        let settled = longest(&self.seek).max(self.head_switch).max(self.reacquire).saturating_add_signed(self.write_settle.max(0));
        settled.max(write) + self.period
    }

    /// Time from `at` until an angle passes the head, in nanoseconds; 0 if it passed within the tolerance.
    pub fn wait_for(&self, at: u64, angle: Angle) -> u64 {
        let (_, phase) = self.by_period.divide(at);
        let wait = self.time_at(angle) + self.period - phase;
        let wait = if wait >= self.period { wait - self.period } else { wait };
        if wait + TOLERANCE_NS >= self.period { 0 } else { wait }
    }

    /// Rotation time of an angle, rounded to the nearest nanosecond.
    pub fn time_at(&self, angle: Angle) -> u64 {
        ((u128::from(angle) * u128::from(self.period) + (1 << 63)) >> 64) as u64
    }

    /// Time in which `sectors`, at most a track, pass the head; each spans `sector_angle`.
    pub fn transfer(&self, sector_angle: Angle, sectors: u32) -> u64 {
        self.time_at(sector_angle.saturating_mul(u64::from(sectors)))
    }

    /// Number of sectors that have passed completely after `elapsed`, at most a revolution.
    pub fn passed(&self, layout: &HddLayout, place: &SectorLocation, elapsed: u64) -> u32 {
        let per_track = u64::from(layout.zones[usize::from(place.zone)].sectors_per_track);
        self.by_period.divide(elapsed.min(self.period) * per_track).0 as u32
    }
}

/// Converts milliseconds of a profile to nanoseconds. At most an hour, so that sums cannot overflow.
///
/// # Errors
/// The value is out of range; the message names `key`.
pub fn duration(key: &str, millis: f64) -> Result<u64, String> {
    if (0.0..=3.6e6).contains(&millis) {
        Ok(Nanos::from_millis_f64(millis).0)
    } else {
        Err(format!("{key}: {millis} is not within 0 to 3600000"))
    }
}

/// Like [`duration`], for a time that may be negative.
fn signed_duration(key: &str, millis: f64) -> Result<i64, String> {
    let nanos = duration(key, millis.abs()).map_err(|_| format!("{key}: {millis} is not within -3600000 to 3600000"))?;
    Ok(if millis < 0.0 { -(nanos as i64) } else { nanos as i64 })
}

fn seek_table(key: &str, seek: &Seek, cylinders: u32) -> Result<Box<[u32]>, String> {
    let curve = curve(seek, cylinders).map_err(|error| format!("{key}.{error}"))?;
    (0..cylinders)
        .map(|distance| {
            let millis = if distance == 0 { 0.0 } else { curve(distance) };
            if (0.0..=4000.0).contains(&millis) {
                Ok((millis * 1e6 + 0.5) as u32)
            } else {
                Err(format!("{key}: {distance} cylinders would take {millis} ms; 0 to 4000 ms are possible"))
            }
        })
        .collect()
}

/// A seek curve: from distance in cylinders, at least 1, to ms.
pub type Curve = Box<dyn Fn(u32) -> f64>;

/// The seek curve of a profile.
///
/// # Errors
/// The points of a table are missing or not in order; the message names the key within the table of the curve.
pub fn curve(seek: &Seek, cylinders: u32) -> Result<Curve, String> {
    let all = f64::from(cylinders);
    Ok(match seek {
        Seek::Constant { time_ms } => {
            let time_ms = *time_ms;
            Box::new(move |_| time_ms)
        }
        Seek::Table { points } => table(points)?,
        Seek::Linear { single_ms, average_ms, full_ms } => {
            let (single, average, full) = (*single_ms, *average_ms, *full_ms);
            Box::new(move |distance| {
                let distance = f64::from(distance);
                if distance <= all / 3.0 {
                    single + 3.0 * (distance - 1.0) / all * (average - single)
                } else {
                    average + (3.0 * distance - all) / (2.0 * all) * (full - average)
                }
            })
        }
        Seek::Curve { single_ms, average_ms, full_ms } => {
            let (single, average, full) = (*single_ms, *average_ms, *full_ms);
            let root = (-10.0 * single + 15.0 * average - 5.0 * full) / (3.0 * all.sqrt());
            let slope = (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * all);
            Box::new(move |distance| {
                let steps = f64::from(distance - 1);
                root * steps.sqrt() + slope * steps + single
            })
        }
        Seek::Hpl { division_cylinders, short_base_ms, short_root_ms, long_base_ms, long_slope_ms, first_ms } => {
            let (division, first) = (*division_cylinders, first_ms.clone());
            let short = (*short_base_ms, *short_root_ms);
            let long = (*long_base_ms, *long_slope_ms);
            Box::new(move |distance| {
                if let Some(measured) = first.get(distance as usize - 1) {
                    *measured
                } else if distance < division {
                    short.0 + short.1 * f64::from(distance).sqrt()
                } else {
                    long.0 + long.1 * f64::from(distance)
                }
            })
        }
    })
}

fn table(points: &[(u32, f64)]) -> Result<Curve, String> {
    if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("points: distance {} follows {}; distances must ascend", pair[1].0, pair[0].0));
    }
    let points = points.to_vec();
    match points.len() {
        0 => Err("points: there is none; at least one [distance, ms] is needed".to_owned()),
        1 => Ok(Box::new(move |_| points[0].1)),
        len => {
            // Tables are filled in order, so the next distance usually lies between the same two points.
            let last = Cell::new(1);
            Ok(Box::new(move |distance| {
                // Before the first point and beyond the last one, the nearest segment is extrapolated.
                let mut upper = last.get();
                while upper > 1 && points[upper - 1].0 >= distance {
                    upper -= 1;
                }
                while upper < len - 1 && points[upper].0 < distance {
                    upper += 1;
                }
                last.set(upper);
                let ((d0, t0), (d1, t1)) = (points[upper - 1], points[upper]);
                let part = (f64::from(distance) - f64::from(d0)) / f64::from(d1 - d0);
                (t0 + part * (t1 - t0)).max(0.0)
            }))
        }
    }
}

/// Estimated time in ms to reacquire the track, for drives on which it was not measured.
///
/// The skew is the time that the manufacturer allows for a change of track: head switch and reacquisition. The reacquisition time
/// is therefore the skew less the head switch, but at most the shortest seek, which ends with a reacquisition as well. On the
/// drives of Carnegie Mellon's validation traces reads or, on the HP, writes fit best with 0.8 (Atlas 10K), 1.4 (Barracuda), 0.85
/// (IBM 18ES), 0.8 (Cheetah 9LP) and 0.8 ms (HP C2247A); this returns 1.0, 1.5, 1.1, 0.8 and 0.7.
pub fn reacquire_estimate(spec: &MechanicsSpecification, seek: &Seek, geometry: &Geometry, zones: &[ZoneSpecification]) -> f64 {
    let single = curve(seek, geometry.cylinders).map_or(0.0, |curve| curve(1));
    let skews = zones.iter().map(|zone| {
        if geometry.skew_in_revolutions { zone.track_skew } else { zone.track_skew / f64::from(zone.sectors_per_track.max(1)) }
    });
    let mean_skew = skews.sum::<f64>() / zones.len().max(1) as f64;
    let skew_ms = mean_skew * 60e3 / spec.rotation_rpm;
    let estimate = single.min(skew_ms - spec.head_switch_ms);
    // Rounded to microseconds, the precision of its inputs.
    if estimate.is_finite() { (estimate * 1e3).round().max(0.0) / 1e3 } else { 0.0 }
}
