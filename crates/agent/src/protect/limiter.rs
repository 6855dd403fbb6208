//! Limits of cgroups, through the applier.

use std::path::PathBuf;

use applier::{ApplierError, Client, Kind};
use control::protect::Limit;

/// Sets limits of cgroups, and puts them back.
pub trait Limiter: Send {
    /// Checks that a cgroup may be limited.
    ///
    /// # Errors
    /// It may not, or the kernel cannot; the message says what would help.
    fn check(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// Sets the limits of a cgroup on a device, unless they are so. They never become looser than before the first call.
    ///
    /// # Errors
    /// [`Kind::Foreign`]: another program has set them meanwhile. [`Kind::NoDevice`]: the cgroup is gone.
    fn limit(&mut self, cgroup: &str, device: &str, limit: &Limit, why: &str) -> Result<(), ApplierError>;

    /// Leaves the limits of another program alone, also at the end.
    ///
    /// # Errors
    /// The applier cannot.
    fn release(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// May limit a cgroup again that was [released](Limiter::release).
    ///
    /// # Errors
    /// The applier cannot.
    fn resume(&mut self, cgroup: &str) -> Result<(), ApplierError>;

    /// Puts back what was there before. Returns the results as a sentence.
    ///
    /// # Errors
    /// The applier cannot.
    fn restore(&mut self, cgroup: &str) -> Result<String, ApplierError>;
}

/// Through the applier at this socket. It puts everything back when the connection ends.
pub struct ByApplier {
    socket: PathBuf,
    client: Option<Client>,
}

impl ByApplier {
    /// Connects at the first request.
    pub fn new(socket: PathBuf) -> ByApplier {
        ByApplier { socket, client: None }
    }

    /// Asks, again if the applier was restarted meanwhile.
    fn ask<T>(&mut self, ask: impl Fn(&mut Client) -> Result<T, ApplierError>) -> Result<T, ApplierError> {
        if let Some(client) = &mut self.client {
            match ask(client) {
                Err(error) if error.kind == Kind::Unreachable => self.client = None,
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
            Some(reason) => Err(ApplierError::new(Kind::NotAllowed, reason)),
            None => Ok(()),
        }
    }

    fn limit(&mut self, cgroup: &str, device: &str, limit: &Limit, why: &str) -> Result<(), ApplierError> {
        let values = [(format!("io.max {device}"), line(limit))];
        self.ask(|client| client.set(cgroup, &values, why)).map(drop)
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

/// As in `io.max`.
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
