//! Research on controllers: learners, learning controllers, papers, evaluation on random workloads and devices.
//!
//! ```text
//! loads, devices (drawn, shipped) ─▶ gather ─▶ experience ─▶ model: learners ─▶ controller: feedback, two-layer, …
//!                                 ─▶ evaluation ─▶ scores   quality of controllers on unseen workloads and devices
//!                                 ─▶ paper ──▶ figures      results compared with the papers' statements
//! fio jobs on a real device ─▶ validation, field, live      comparison with the real kernel
//! ```
//! No other crate of the product depends on this one.

pub mod controller;
pub mod devices;
pub mod evaluation;
pub mod field;
pub mod gather;
pub mod guarantees;
pub mod iocost;
pub mod live;
pub mod loads;
pub mod model;
pub mod paper;
pub mod protect;
pub mod report;
pub mod shares;
pub mod stage;
pub mod validation;
pub mod worlds;
