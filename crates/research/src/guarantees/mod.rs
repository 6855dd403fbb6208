//! Whether guarantees to tenants are kept: drawn hosts, loads and contracts, and each scheduler's results.

pub mod admission;
pub mod bars;
pub mod draw;
pub mod rates;
