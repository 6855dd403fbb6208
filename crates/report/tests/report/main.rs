//! Records in; tables, pages and JSON out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod browser;
mod explain;
mod fixture;
mod json;
mod page;
mod record;
mod single;
mod table;
mod tenants;
mod verdict;
