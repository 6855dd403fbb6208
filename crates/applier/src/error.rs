//! Errors of the applier.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a request failed. Nothing was changed, unless the kind is [`ErrorKind::HalfDone`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplierError {
    /// The category, on which clients base their reaction.
    pub kind: ErrorKind,
    /// A message for the administrator: the fault, its place, and the remedy.
    pub message: String,
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The applier cannot be reached, or does not answer in time.
    Unreachable,
    /// Client and applier are of incompatible versions, or the applier does not serve this user.
    Refused,
    /// There is no such device, or it was removed.
    NoDevice,
    /// The attribute is not in the list, does not exist, or may not have this value.
    NotAllowed,
    /// An attribute of this device was changed externally.
    Foreign,
    /// Another applier has locked this device.
    InUse,
    /// An expected value has changed.
    Stale,
    /// The limit on scheduler switches was reached.
    TooSoon,
    /// The system forbids it: read-only sysfs, a sandbox, no permission.
    Forbidden,
    /// The kernel refused the value, or changed it.
    Kernel,
    /// The journal cannot be read or written. Nothing is set without it.
    Journal,
    /// It could neither be done nor undone; the message has the current value. The journal still has the originals.
    HalfDone,
}

impl ApplierError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> ApplierError {
        ApplierError { kind, message: message.to_string() }
    }
}

impl fmt::Display for ApplierError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApplierError {}
