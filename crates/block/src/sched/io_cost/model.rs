//! The cost of a request for the device, by a linear model (`calc_lcoefs`, `calc_vtime_cost_builtin`).

use super::Tunables;
use crate::{Op, Request};

/// Sectors per page.
const PAGE: u64 = 8;
/// Distance in sectors from the end of its tenant's last request above which a request is random, 16 MiB (`LCOEF_RANDIO_PAGES`).
const RANDOM: u64 = 4_096 * PAGE;

/// Coefficients of one direction, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Coefficients {
    page: u64,
    sequential: u64,
    random: u64,
}

/// Coefficients of reads and of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model([Coefficients; 2]);

impl Coefficients {
    fn new(bps: u64, sequential: u64, random: u64) -> Coefficients {
        // The cost of an operation includes the first page.
        let page = (4_096 * 1_000_000_000_u64).div_ceil(bps.max(1));
        let operation = |rate: u64| 1_000_000_000_u64.div_ceil(rate.max(1)).saturating_sub(page);
        Coefficients { page, sequential: operation(sequential), random: operation(random) }
    }
}

impl Model {
    pub(super) fn new(set: &Tunables) -> Model {
        let reads = Coefficients::new(set.rbps, set.rseqiops, set.rrandiops);
        Model([reads, Coefficients::new(set.wbps, set.wseqiops, set.wrandiops)])
    }

    fn of(&self, request: &Request) -> &Coefficients {
        &self.0[usize::from(request.op.is_write())]
    }

    /// Cost of a request in nanoseconds after a request of the same tenant that ended at `cursor`. A discard costs nothing.
    pub(super) fn cost(&self, request: &Request, cursor: u64) -> u64 {
        if request.op == Op::Discard {
            return 0;
        }
        let of = self.of(request);
        let operation = if cursor > 0 && request.lba.abs_diff(cursor) > RANDOM { of.random } else { of.sequential };
        operation.saturating_add(self.transfer(request))
    }

    /// The part of the cost that is proportional to its size.
    pub(super) fn transfer(&self, request: &Request) -> u64 {
        let pages = (u64::from(request.sectors) / PAGE).max(1);
        pages.saturating_mul(self.of(request).page)
    }
}
