//! Training data: arrays of drives of every age, and of flash. Levels, numbers and stripe units are those of [`array`](super::array).

use super::{Family, array, broad_disk, broad_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "broad-array",
    about: "RAID 0, 1, 5 or 10 of drives of every age or of flash, to train on",
    draw: |random| array::of(random, MEMBERS),
};

/// Families of the members, repeated by frequency.
const MEMBERS: &[&Family] = &[&broad_disk::FAMILY, &broad_disk::FAMILY, &broad_disk::FAMILY, &broad_flash::FAMILY];
