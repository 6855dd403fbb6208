//! Evaluates guarantees to tenants: random hosts, loads and contracts, and each scheduler's results.

pub mod admission;
pub mod bars;
pub mod draw;
pub mod rates;
