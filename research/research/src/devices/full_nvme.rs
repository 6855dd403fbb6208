//! NVMe flash as in [`nvme_flash`](super::nvme_flash), of which every page has been overwritten at random, so that garbage collection works
//! from the first write on.

use super::{Family, flash, nvme_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "full-nvme",
    about: "flash with NVMe, overwritten at random until garbage collection is steady",
    draw: |random| flash::in_state((nvme_flash::FAMILY.draw)(random), "random"),
};
