//! Volumes of a cloud provider with burst credits: SATA flash behind limits that bind once the credits are used up.
//!
//! Ranges: Amazon's "Amazon EBS volume types" (gp2: 3 operations a second for each GiB, at least 100, 3,000 in bursts; 125 to 250 MB/s). Its
//! initial credits last for half an hour at 3,000 operations a second; those drawn last for seconds, as on a volume that has been in use.

use testbed::chance::{one_of, scaled};

use super::{Family, flash, sata_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "burst-volume",
    about: "cloud volumes: SATA flash behind limits with burst credits",
    draw: |random| {
        let volume = (sata_flash::FAMILY.draw)(random);
        let (operations, mb_s) = (scaled(random, 100.0, 3_000.0).round(), one_of(random, &[125.0, 250.0]));
        let credits = scaled(random, 100.0, 20_000.0).round();
        let limits = format!(
            "operations_per_second = {operations:?}\noperation_kib = 256\nburst_operations_per_second = 3000.0\n\
             burst_operations = {credits:?}\nmb_s = {mb_s:?}\n"
        );
        flash::limited(volume, &limits)
    },
};
