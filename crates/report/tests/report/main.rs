//! Records in; tables, pages and JSON out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[cfg(feature = "pages")]
mod advice;
#[cfg(feature = "pages")]
mod browser;
mod explain;
mod fixture;
mod json;
#[cfg(feature = "pages")]
mod page;
mod record;
mod single;
mod table;
mod tenants;
mod verdict;
