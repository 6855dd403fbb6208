//! A queue whose scheduler and settings change while requests are under way, and pilots that change them.

mod device;
mod limits;
mod pilot;
mod switching;
mod tags;
