//! Models of the gains of settings ([`control::gain_model`]): gathered on generated devices, trained, and evaluated on held-out data.
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
