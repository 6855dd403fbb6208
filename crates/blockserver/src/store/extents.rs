//! Map from a store's extents to positions in volumes, updated while the store is running.

use std::sync::atomic::{AtomicU32, Ordering};

use block::tenants::Places;

/// Marks an extent of no volume.
const FREE: u32 = u32::MAX;

/// For each extent of a store, its position in the volume that it is allocated to. Reference disks thus see the addresses of the volume,
/// and the scheduler needs no notice when a volume is allocated an extent.
///
/// ```
/// use block::tenants::Places;
///
/// let extents = blockserver::store::Extents::new(4, 1000);
/// extents.set(3, Some(1));
/// assert_eq!((extents.place(3_200), extents.place(0)), (Some(1_200), None));
/// ```
#[derive(Debug)]
pub struct Extents {
    sectors: u64,
    places: Vec<AtomicU32>,
}

impl Extents {
    /// `count` extents of `sectors` sectors each, all free.
    pub fn new(count: u32, sectors: u64) -> Extents {
        Extents { sectors: sectors.max(1), places: (0..count).map(|_| AtomicU32::new(FREE)).collect() }
    }

    /// Sets an extent's position in its volume, in extents; `None` frees it. A number out of range is ignored.
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
