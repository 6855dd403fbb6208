//! Arrays of server drives with a failed member, half of them with a spare that is being rebuilt. Levels, numbers and stripe units are those
//! of [`array`](super::array).

use super::{Family, array, nearline, scsi_2000s};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "failed-array",
    about: "RAID 1, 5 or 10 of server drives, one of which has failed; half are rebuilding",
    draw: |random| array::failed(random, MEMBERS),
};

/// Families of the members.
const MEMBERS: &[&Family] = &[&nearline::FAMILY, &scsi_2000s::FAMILY];
