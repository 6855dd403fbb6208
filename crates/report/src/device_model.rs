//! A learned device model: its errors and its tree.

use crate::curves::Curves;

/// Description of a learned device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceModel {
    /// The device's name.
    pub name: String,
    /// The program's version.
    pub seekwise_version: String,
    /// The origin of the model, as a line.
    pub summary: String,
    /// Distributions of its errors.
    pub curves: Vec<Curves>,
    /// The whole model as text.
    pub text: String,
}
