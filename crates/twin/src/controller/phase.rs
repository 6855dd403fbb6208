//! State of the controller between two changes.

use control::controller::Prediction;

/// A change whose effect is being verified.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The arm active before the change.
    pub from: usize,
    /// The prediction for the change.
    pub prediction: Prediction,
}

/// State between two changes.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// No change is being verified.
    Watching,
    /// The setting has just changed, and earlier requests are still being served.
    Settling(Option<Pending>),
    /// The effect of a change is being measured.
    Verifying(Pending),
}

impl Phase {
    /// The change that is being verified, or will be; `None` if there is none.
    pub fn pending(&self) -> Option<&Pending> {
        match self {
            Phase::Watching => None,
            Phase::Settling(pending) => pending.as_ref(),
            Phase::Verifying(pending) => Some(pending),
        }
    }

    pub fn is_settling(&self) -> bool {
        matches!(self, Phase::Settling(_))
    }

    /// Starts to verify this change, in place of any other.
    pub fn verify(&mut self, pending: Pending) {
        *self = if self.is_settling() { Phase::Settling(Some(pending)) } else { Phase::Verifying(pending) };
    }

    /// Ends the verification, and returns the change that was being verified.
    pub fn take_pending(&mut self) -> Option<Pending> {
        let is_settling = self.is_settling();
        match std::mem::replace(self, if is_settling { Phase::Settling(None) } else { Phase::Watching }) {
            Phase::Watching => None,
            Phase::Settling(pending) => pending,
            Phase::Verifying(pending) => Some(pending),
        }
    }

    /// Starts to settle after a change of the setting.
    pub fn settle(&mut self) {
        *self = Phase::Settling(self.take_pending());
    }

    /// Ends settling, and starts the pending verification, if any.
    pub fn settled(&mut self) {
        if let Phase::Settling(pending) = self {
            *self = pending.take().map_or(Phase::Watching, Phase::Verifying);
        }
    }
}
