//! Arrays as in small storage boxes: of laptop drives or SATA flash; some have a failed member, with or without a spare. Levels, numbers and
//! stripe units are those of [`array`](super::array).

use testbed::chance::happens;

use super::{Family, array, laptop, sata_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "small-array",
    about: "RAID 0, 1, 5 or 10 of laptop drives or SATA flash, half of them with a failed member",
    draw: |random| if happens(random, 0.5) { array::failed(random, MEMBERS) } else { array::of(random, MEMBERS) },
};

/// Families of the members, repeated by frequency.
const MEMBERS: &[&Family] = &[&laptop::FAMILY, &laptop::FAMILY, &sata_flash::FAMILY];
