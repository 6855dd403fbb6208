//! Models of what settings gain ([`control::gain_model`]): gathered on drawn devices, trained, and judged on what was held out.
//!
//! ```text
//! drawn load on a device of its own ─▶ gather: one run for each setting ─▶ rows (CSV) ─▶ train: forest ─▶ model, page
//! ```

pub mod gather;
pub mod grow;
pub mod page;
mod rows;
pub mod train;

pub use rows::{Row, Rows};
