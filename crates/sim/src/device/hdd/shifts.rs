//! The shifts of a zone's data by slips: bad sectors that the numbering skips.

use super::region::Regions;

/// Data positions of the zone from `position` on, before `until`, are shifted by `shift` sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    position: u32,
    until: u32,
    shift: i32,
}

/// The shift of each data position of a zone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shifts {
    /// Sorted by position, with a sentinel at either end, so that every position is in a step.
    steps: Box<[Shift]>,
    /// Index into [`steps`](Shifts::steps) for the start of each bucket of 2^`bucket_bits` data positions.
    buckets: Box<[u32]>,
    bucket_bits: u32,
}

impl Shifts {
    /// The shifts by the slipped units of a zone, sorted: units of `unit` sectors, in a zone of `total` sectors.
    ///
    /// # Errors
    /// The slips of a region are more than its spares can take.
    pub(super) fn new(regions: &Regions, slips: &[u32], unit: u32, total: u32) -> Result<Shifts, String> {
        let mut shifts = Vec::with_capacity(slips.len());
        let physical = slips.iter().map(|slip| slip * unit).collect::<Vec<_>>();
        if regions.slips_leave {
            slip_to_end(regions, &physical, &mut shifts);
        } else {
            for slips in physical.chunk_by(|a, b| a / regions.sectors == b / regions.sectors) {
                slip_within_region(regions, slips, (unit, total), &mut shifts)?;
            }
        }
        Ok(Shifts::index(&shifts, total))
    }

    /// Adds the sentinels, and builds up to 8 buckets per step.
    fn index(shifts: &[Shift], total: u32) -> Shifts {
        let edge = |position| Shift { position, until: 0, shift: 0 };
        let steps: Box<[Shift]> = std::iter::once(edge(0)).chain(shifts.iter().copied()).chain([edge(u32::MAX)]).collect();
        let buckets = 8 * steps.len() as u32;
        let bucket_bits = (0..32).find(|bits| total >> bits < buckets).unwrap_or(0);
        let begins = (0..=total >> bucket_bits).map(|bucket| bucket << bucket_bits);
        let step_at = |position| steps.partition_point(|shift| shift.position <= position) as u32 - 1;
        let buckets = begins.map(step_at).collect();
        Shifts { steps, buckets, bucket_bits }
    }

    /// Number of positions where the shift changes.
    pub(super) fn len(&self) -> usize {
        self.steps.len() - 2
    }

    /// The shift of a data position, and the number of positions until it changes. Its step is the one in which its bucket begins
    /// or one shortly after.
    pub(super) fn at(&self, data: u32) -> (i32, u32) {
        let mut step = self.buckets[(data >> self.bucket_bits) as usize] as usize;
        while self.steps[step + 1].position <= data {
            step += 1;
        }
        let Shift { until, shift, .. } = self.steps[step];
        (if data < until { shift } else { 0 }, self.steps[step + 1].position - data)
    }
}

/// Slips that use no spares shift all later data of the zone.
fn slip_to_end(regions: &Regions, slips: &[u32], shifts: &mut Vec<Shift>) {
    for &slip in slips {
        let (region, offset) = (slip / regions.sectors, slip % regions.sectors);
        // A bad spare holds no data: nothing is shifted.
        if (regions.front..regions.front + regions.data).contains(&offset) {
            let moved = shifts.len() as u32;
            let position = (region * regions.data + offset - regions.front).saturating_sub(moved);
            shifts.push(Shift { position, until: u32::MAX, shift: moved as i32 + 1 });
        }
    }
}

/// Slips of one region, whose spares take the shifted data.
fn slip_within_region(regions: &Regions, slips: &[u32], (unit, total): (u32, u32), shifts: &mut Vec<Shift>) -> Result<(), String> {
    let region = slips[0] / regions.sectors;
    let first_data = region * regions.data;
    let until = first_data + regions.data;
    let drawn_forward = regions.drawn_forward(slips);
    if drawn_forward > regions.front {
        let (slips, spares) = (slips.len(), regions.front);
        return Err(format!("slips: {slips} in one region are more than its {spares} spares can take"));
    }
    let mut moved = 0;
    if drawn_forward > 0 {
        shifts.push(Shift { position: first_data, until, shift: -(drawn_forward as i32) });
    }
    for offset in slips.iter().map(|slip| slip % regions.sectors) {
        let first = regions.front - drawn_forward;
        if offset < first || offset - first >= regions.data + moved {
            // A bad spare holds no data: nothing is shifted.
            continue;
        }
        let spares = regions.spares_of(region, total);
        if moved + unit > spares {
            let (slips, spares) = (slips.len(), spares / unit);
            return Err(format!("slips: {slips} in one region are more than its {spares} spares can take"));
        }
        let position = first_data + offset - first - moved;
        moved += unit;
        shifts.push(Shift { position, until, shift: moved as i32 - drawn_forward as i32 });
    }
    Ok(())
}
