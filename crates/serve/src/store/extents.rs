//! Which part of which volume each extent of a store is, changed while the store is served.

use std::sync::atomic::{AtomicU32, Ordering};

use block::tenants::Places;

/// An extent that is no part of a volume.
const FREE: u32 = u32::MAX;

/// The extents of a store by number: their places in the volumes that have them. A reference disk sees a volume as the volume's owner does,
/// and the scheduler is not told anything when a volume gets an extent.
///
/// ```
/// use block::tenants::Places;
///
/// let extents = serve::store::Extents::new(4, 1000);
/// extents.set(3, Some(1));
/// assert_eq!((extents.place(3_200), extents.place(0)), (Some(1_200), None));
/// ```
#[derive(Debug)]
pub struct Extents {
    sectors: u64,
    places: Vec<AtomicU32>,
}

impl Extents {
    /// A number of extents of this many sectors each, all free.
    pub fn new(count: u32, sectors: u64) -> Extents {
        Extents { sectors: sectors.max(1), places: (0..count).map(|_| AtomicU32::new(FREE)).collect() }
    }

    /// An extent becomes this place of a volume, or is free.
    pub fn set(&self, number: u32, place: Option<u32>) {
        if let Some(known) = self.places.get(number as usize) {
            known.store(place.unwrap_or(FREE), Ordering::Relaxed);
        }
    }
}

impl Places for Extents {
    fn place(&self, lba: u64) -> Option<u64> {
        let number = usize::try_from(lba / self.sectors).ok()?;
        let place = self.places.get(number)?.load(Ordering::Relaxed);
        (place != FREE).then(|| u64::from(place) * self.sectors + lba % self.sectors)
    }
}
