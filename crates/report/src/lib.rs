//! Reads records of runs, and formats tables, plots and pages. Pure functions of the records.
//!
//! ```text
//!  record files ──read──▶ [Record] ──Comparison::new──▶ Comparison ──┬─▶ table::text   a terminal, a pipe
//!                                  (same trace, same disk)           ├─▶ page::html    a browser
//!                                                                    └─▶ json::text    a program
//! ```
//! Pages and plots need the feature `pages`, so that a program that prints text only is built without templates.
//! The three outputs take columns, best marks and verdict from [`figure`], [`comparison`] and [`verdict`], so they always agree.

pub mod advice;
pub mod comparison;
pub mod curves;
pub mod device_model;
pub mod effects;
pub mod explain;
pub mod figure;
pub mod fio;
pub mod gains;
pub mod guarantee;
pub mod json;
pub mod number;
#[cfg(feature = "pages")]
pub mod page;
pub mod placement;
#[cfg(feature = "pages")]
pub mod plot;
pub mod record;
pub mod schema;
pub mod single;
mod starved;
pub mod table;
mod tenants;
pub mod text;
pub mod verdict;

pub use text::{paragraph, printable, shortened};
