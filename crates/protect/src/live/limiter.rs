//! Limits of cgroups, through the applier.

use std::path::PathBuf;

use crate::decision::Limit;
use applier::{ApplierError, Client, ErrorKind, Scope};

/// Sets and restores limits of cgroups.
pub trait Limiter: Send {
    /// Checks that a cgroup may be limited.
    ///
    /// # Errors
    /// It may not be limited, or the kernel lacks support; the message says what would help.
    fn check(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// Sets the limits of a cgroup on a device, if they differ. They never become looser than before the first call.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`]: another program has changed them. [`ErrorKind::NoDevice`]: the cgroup is gone.
    fn limit(&mut self, cgroup: &str, device: &str, limit: &Limit, why: &str) -> Result<(), ApplierError>;

    /// Stands down from a cgroup: limits set by another program are kept, also at exit.
    ///
    /// # Errors
    /// The applier fails.
    fn release(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// Resumes control of a cgroup that was [released](Limiter::release).
    ///
    /// # Errors
    /// The applier fails.
    fn resume(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// Restores the original limits. Returns the results as a sentence.
    ///
    /// # Errors
    /// The applier fails.
    fn restore(&mut self, cgroup: &str) -> Result<String, ApplierError>;
}

/// A limiter that uses the applier at this socket. The applier restores everything when the connection closes.
pub struct ByApplier {
    socket: PathBuf,
    client: Option<Client>,
}

impl ByApplier {
    /// Connects on the first request.
    pub fn new(socket: PathBuf) -> ByApplier {
        ByApplier { socket, client: None }
    }

    /// Sends a request; retries if the applier was restarted.
    fn ask<T>(&mut self, ask: impl Fn(&mut Client) -> Result<T, ApplierError>) -> Result<T, ApplierError> {
        if let Some(client) = &mut self.client {
            match ask(client) {
                Err(error) if error.kind == ErrorKind::Unreachable => self.client = None,
                answer => return answer,
            }
        }
        let client = self.client.insert(Client::connect(&self.socket)?);
        ask(client)
    }
}

impl Limiter for ByApplier {
    fn check(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        let can = self.ask(|client| client.can(cgroup))?;
        match can.into_iter().find(|can| can.attribute == "io.max").and_then(|can| can.refused) {
            Some(reason) => Err(ApplierError::new(ErrorKind::NotAllowed, reason)),
            None => Ok(()),
        }
    }

    fn limit(&mut self, cgroup: &str, device: &str, limit: &Limit, why: &str) -> Result<(), ApplierError> {
        let values = [(format!("io.max {device}"), line(limit))];
        self.ask(|client| client.set(Scope::Cgroup(cgroup.to_owned()), &values, why)).map(drop)
    }

    fn release(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        self.ask(|client| client.release(cgroup, &[]))
    }

    fn resume(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        self.ask(|client| client.resume(cgroup))
    }

    fn restore(&mut self, cgroup: &str) -> Result<String, ApplierError> {
        let outcomes = self.ask(|client| client.restore(Some(cgroup)))?;
        Ok(outcomes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }
}

/// Formats limits in the syntax of `io.max`.
fn line(limit: &Limit) -> String {
    let values = [
        ("rbps", limit.read_bytes_per_s),
        ("wbps", limit.write_bytes_per_s),
        ("riops", limit.read_iops),
        ("wiops", limit.write_iops),
    ];
    let word = |(key, value): (&str, Option<u64>)| format!("{key}={}", value.map_or("max".to_owned(), |value| value.to_string()));
    values.map(word).join(" ")
}
