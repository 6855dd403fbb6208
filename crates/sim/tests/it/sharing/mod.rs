//! Disk time shared among tenants, on simulated disks and arrays.

mod rates;
mod shares;
mod tenants;
