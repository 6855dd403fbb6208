//! Repeats recorded requests.

use std::sync::Arc;

use sim::run::{Issue, Pilot, ServerEvent};
use testbed::synthetic::Drawn;

use super::Wanted;

/// Maximum number of requests to keep: some times the number needed to saturate a device.
const KEPT: usize = 16_384;
/// Shifts of requests are multiples of this: a page, in sectors.
const ALIGNMENT: u64 = 8;

/// The requests of a load at a device, in order of issue.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    requests: Vec<Drawn>,
    count: u64,
    /// Requests outstanding now, and the sum over issued requests of the number outstanding at their issue.
    outstanding: u64,
    depths: u64,
}

impl Recorded {
    /// Adds a request.
    pub fn push(&mut self, request: Drawn) {
        if self.requests.len() < KEPT {
            self.requests.push(request);
        }
        self.count += 1;
    }

    /// The mean number of requests outstanding at the issue of one, including it; at least 1.
    pub fn depth(&self) -> usize {
        (self.depths as f64 / self.count.max(1) as f64).round().max(1.0) as usize
    }

    /// Number of requests, kept or not.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// These requests repeated without end. Each pass is shifted among the sectors from the first to the last of them,
    /// so that no cache holds them; sequential requests stay sequential. `None` if there are none.
    pub fn again(&self) -> Option<impl Fn() -> Again + use<>> {
        let begin = self.requests.iter().map(|drawn| drawn.lba).min()?;
        let end = self.requests.iter().map(|drawn| drawn.lba + u64::from(drawn.sectors)).max()?;
        let requests: Arc<[Drawn]> = self.requests.clone().into();
        Some(move || Again { requests: requests.clone(), begin, length: end - begin, at: 0, shift: 0 })
    }
}

/// Records the requests of a run.
impl Pilot for Recorded {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted {
            match *event {
                ServerEvent::Issued(Issue { lba, sectors, op, .. }) => {
                    self.outstanding += 1;
                    self.depths += self.outstanding;
                    self.push(Drawn { lba, sectors, op });
                }
                ServerEvent::Finished(_) => self.outstanding = self.outstanding.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// The request source of [`Recorded::again`].
pub struct Again {
    requests: Arc<[Drawn]>,
    begin: u64,
    length: u64,
    at: usize,
    shift: u64,
}

impl Wanted for Again {
    fn next(&mut self) -> Drawn {
        if self.at == self.requests.len() {
            self.at = 0;
            // The golden section: the shifts of successive passes are far apart.
            let far = (self.length as f64 * 0.618) as u64;
            self.shift = (self.shift + far / ALIGNMENT * ALIGNMENT) % self.length.max(1);
        }
        let Drawn { lba, sectors, op } = self.requests[self.at];
        self.at += 1;
        let places = self.length.saturating_sub(u64::from(sectors)) + 1;
        Drawn { lba: self.begin + (lba - self.begin + self.shift) % places, sectors, op }
    }
}
