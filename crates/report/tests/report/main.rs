//! Records in; tables, pages and JSON out.

mod browser;
mod fixture;
mod json;
mod page;
mod record;
mod table;
mod verdict;
