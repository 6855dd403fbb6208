//! SATA flash as in [`sata_flash`](super::sata_flash): either empty, or overwritten at random until garbage collection is steady.

use testbed::chance::one_of;

use super::{Family, flash, sata_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "used-sata",
    about: "flash with SATA, new or overwritten at random",
    draw: |random| {
        let state = one_of(random, &["fresh", "random", "random"]);
        flash::in_state((sata_flash::FAMILY.draw)(random), state)
    },
};
