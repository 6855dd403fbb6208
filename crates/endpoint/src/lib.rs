//! Endpoints of daemons: local clients, limited in number and time, and metrics for Prometheus.

pub mod connections;
pub mod metrics;
