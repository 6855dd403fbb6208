//! The twin of a target: replays the observed load in the simulator under every candidate.
//!
//! ```text
//! observe::Event ──▶ Recording ──▶ load: streams and their requests ──┐
//!                      │                                            ├──▶ forecast: trials of the candidates ──▶ controller
//!                      └───────▶ device: fitted to service times ───┘
//! ```
//! Its only input is block tracepoints of Linux: the times at which requests were queued, dispatched and completed. It has no access to the
//! internals of a simulated device.

#![forbid(unsafe_code)]

pub mod call_model;
pub mod controller;
pub mod counters;
pub mod device;
pub mod forecast;
pub mod load;
pub mod recording;
pub mod score_buckets;
pub mod trial;
pub mod unit_load;

pub use call_model::CallModel;
pub use controller::TwinController;
pub use device::{Finding, FitError, Fitted, fit};
pub use forecast::{Activation, Forecast, ForecastError, ForecastRequest};
pub use load::Load;
pub use recording::{ObservedRequest, Recording};
pub use score_buckets::ScoreBuckets;
/// Tunables of the host that trials run on: Linux's names, ranges and defaults.
pub use sim::host::TUNABLES as HOST_TUNABLES;
pub use trial::{TrialResult, event};
