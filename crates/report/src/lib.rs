//! Records of runs in; tables, plots and pages out. Pure functions of files.
//!
//! ```text
//!  record files ──read──▶ [Record] ──Comparison::new──▶ Comparison ──┬─▶ table::text   a terminal, a pipe
//!                                  (same trace, same disk)           ├─▶ page::html    a browser
//!                                                                    └─▶ json::text    a program
//! ```
//! The three outputs take columns, best marks and verdict from [`figure`], [`comparison`] and [`verdict`], so they always agree.

pub mod advice;
pub mod comparison;
pub mod counting;
pub mod device_model;
pub mod exam;
pub mod explain;
pub mod field;
pub mod figure;
pub mod fio;
pub mod guarantee;
pub mod json;
pub mod number;
pub mod page;
pub mod paper;
pub mod placement;
mod plot;
pub mod promises;
pub mod record;
pub mod single;
pub mod table;
mod tenants;
mod text;
pub mod truth;
pub mod twin;
pub mod verdict;

pub use text::{paragraph, printable};
