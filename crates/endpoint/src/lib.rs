//! Endpoints of daemons: local clients, limited in number and time, metrics for Prometheus, and the state that systemd is notified of.

pub mod connections;
pub mod metrics;
pub mod notify;
