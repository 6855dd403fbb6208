//! A learned device: how far its model is off, and its tree.

use crate::curves::Curves;

/// Description of a learned device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceModel {
    /// What the device is called.
    pub name: String,
    /// The program's version.
    pub seekwise_version: String,
    /// How the model came to be, in a line.
    pub summary: String,
    /// Distributions of its errors.
    pub curves: Vec<Curves>,
    /// All of it as text.
    pub text: String,
}
