//! Guarantees to tenants of a shared store: contracts, admission, placement, and the judge of what they got.
//!
//! ```text
//! contract ─▶ tenants ─▶ block::Roster, which schedulers keep ─▶ judge: kept or broken, beside a reference run alone
//!                │
//!                ├─▶ capacity: the part of a device that a guarantee needs
//!                ├─▶ admission: whether guarantees hold together, at the worst patterns and beside bad neighbours
//!                └─▶ placement, planner: which array holds which volume, which moves, and the service meanwhile
//! ```

pub mod admission;
pub mod capacity;
pub mod placement;
pub mod planner;
pub mod reference_disk;
pub mod tenants;
