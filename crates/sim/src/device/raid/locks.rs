//! Locks on ranges of sectors: in order of arrival, never two that overlap.
//!
//! Parity and mirrors stay correct only if a write that computes or copies them has exclusive access to its sectors from its first
//! read to its last write. md locks stripes a page deep (`struct stripe_head`); here exactly these sectors are locked.

/// Ranges of sectors with the operations that hold or await them, in order of arrival.
#[derive(Debug, Default)]
pub struct Locks {
    holds: Vec<Hold>,
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    first: u64,
    end: u64,
    owner: u32,
    granted: bool,
}

impl Hold {
    fn overlaps(&self, other: &Hold) -> bool {
        self.first < other.end && other.first < self.end
    }
}

impl Locks {
    /// Queues `owner` for a range; returns whether it holds it now. An owner has at most one range.
    pub fn acquire(&mut self, (first, end): (u64, u64), owner: u32) -> bool {
        let mut hold = Hold { first, end, owner, granted: false };
        hold.granted = !self.holds.iter().any(|earlier| earlier.overlaps(&hold));
        self.waiting += usize::from(!hold.granted);
        self.holds.push(hold);
        hold.granted
    }

    /// Releases the range of `owner`, and appends the owners that now get theirs to `granted`.
    pub fn release(&mut self, owner: u32, granted: &mut impl Extend<u32>) {
        let Some(index) = self.holds.iter().position(|hold| hold.owner == owner) else { return };
        let released = self.holds.remove(index);
        if self.waiting == 0 {
            return;
        }
        for later in index..self.holds.len() {
            let hold = self.holds[later];
            if !hold.granted && hold.overlaps(&released) && !self.holds[..later].iter().any(|earlier| earlier.overlaps(&hold)) {
                self.holds[later].granted = true;
                self.waiting -= 1;
                granted.extend([hold.owner]);
            }
        }
    }
}
