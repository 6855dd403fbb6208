//! Shadow entries of evicted pages, to detect refaults of the working set: `mm/workingset.c` of Linux 6.x.
//!
//! Simplified: Linux keeps shadow entries in each file's own index while there is memory; here they share one table with as many
//! entries as frames, in which a newer one may replace an older one.

#[derive(Clone, Copy, Default)]
struct Shadow {
    /// 0: the entry is free.
    tag: u32,
    /// The clock at the eviction, with the lowest bit replaced by whether the page had been active.
    age: u32,
}

/// Information on a refaulted page.
pub(super) struct Refault {
    /// Evictions and activations since its eviction.
    pub distance: u32,
    /// Whether it was active before.
    pub workingset: bool,
}

/// The shadows of pages, by a hash of the page.
#[derive(Default)]
pub(super) struct Shadows {
    /// Empty until the first eviction.
    entries: Vec<Shadow>,
    /// Twice the number of evictions and activations so far (`nonresident_age`).
    clock: u32,
}

impl Shadows {
    /// Counts an eviction or activation.
    pub fn tick(&mut self) {
        self.clock = self.clock.wrapping_add(2);
    }

    /// Records an eviction from one of `frames` frames.
    pub fn leave(&mut self, frames: u32, hash: u64, workingset: bool) {
        self.tick();
        if self.entries.is_empty() {
            self.entries = vec![Shadow::default(); (frames as usize).next_power_of_two()];
        }
        let (place, tag) = self.place(hash);
        self.entries[place] = Shadow { tag, age: self.clock & !1 | u32::from(workingset) };
    }

    /// Removes and returns the shadow of a page that is read again.
    pub fn take(&mut self, hash: impl FnOnce() -> u64) -> Option<Refault> {
        if self.entries.is_empty() {
            return None;
        }
        let (place, tag) = self.place(hash());
        let shadow = self.entries[place];
        if shadow.tag != tag {
            return None;
        }
        self.entries[place] = Shadow::default();
        Some(Refault { distance: self.clock.wrapping_sub(shadow.age & !1) / 2, workingset: shadow.age & 1 == 1 })
    }

    fn place(&self, hash: u64) -> (usize, u32) {
        ((hash as usize) & (self.entries.len() - 1), (hash >> 32) as u32 | 1)
    }

    /// Its size in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Shadow>()
    }
}
