//! Advice about a device after observing it for a while: by its requests as root, by its counters as any user.

mod counted;
mod rule;
mod watched;

pub use crate::events::counter_source::ASKED_FOR;
pub use counted::of_counters;
pub use watched::{WatchedLoad, begin, captured, to_store, unseen};
