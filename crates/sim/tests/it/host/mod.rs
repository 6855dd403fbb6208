//! The host, observed from both sides: the times of calls, and the requests to the device.

mod any;
mod flushing;
mod machine;
mod memory;
mod reading;
mod throttling;
mod writing;
