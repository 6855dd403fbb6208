//! Shadow entries of evicted pages, to detect refaults of the working set: `mm/workingset.c` of Linux 6.x.
//!
//! Simplified: Linux keeps shadow entries in each file's own index for as long as there is memory; here they share one table with
//! room for as many as there are frames, where a newer one may take an older one's place.

#[derive(Clone, Copy, Default)]
struct Shadow {
    /// 0: the entry is free.
    tag: u32,
    /// The clock when the page left, its lowest bit replaced by whether it had been active.
    age: u32,
}

/// Information on a refaulted page.
pub(super) struct Refault {
    /// Evictions and activations since it left.
    pub distance: u32,
    /// It was active once.
    pub workingset: bool,
}

/// The shadows of pages, by a hash of which page it is.
#[derive(Default)]
pub(super) struct Shadows {
    /// Empty until the first page leaves.
    entries: Vec<Shadow>,
    /// Evictions and activations so far, twice (`nonresident_age`).
    clock: u32,
}

impl Shadows {
    /// One more page left or was made active.
    pub fn tick(&mut self) {
        self.clock = self.clock.wrapping_add(2);
    }

    /// A page leaves one of `frames` frames.
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

    /// Bytes that it takes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Shadow>()
    }
}
