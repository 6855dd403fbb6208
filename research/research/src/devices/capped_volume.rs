//! Volumes of a cloud provider with provisioned rates: NVMe flash behind constant limits.
//!
//! Ranges: Amazon's "Amazon EBS volume types" (3,000 to 16,000 operations a second of up to 256 KiB and 125 to 1,000 MB/s for general
//! purpose, from 100 operations a second on for provisioned ones) and Google's "About Persistent Disk performance" (0.12 MB/s
//! for each GB of a standard disk, so 12 for 100 GB).

use testbed::chance::scaled;

use super::{Family, flash, nvme_flash};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "capped-volume",
    about: "cloud volumes: NVMe flash behind constant limits of operations and bytes per second",
    draw: |random| {
        let volume = (nvme_flash::FAMILY.draw)(random);
        let (operations, mb_s) = (scaled(random, 100.0, 16_000.0).round(), scaled(random, 12.0, 1000.0).round());
        flash::limited(volume, &format!("operations_per_second = {operations:?}\noperation_kib = 256\nmb_s = {mb_s:?}\n"))
    },
};
