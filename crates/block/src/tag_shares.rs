//! Each tenant's share of a queue's tags, for schedulers that reserve tags for all tenants.

use alloc::vec::Vec;

use crate::Request;
use crate::queue::Placed;
use crate::tags::{Room, Tags, tags_open_to_tenant, wake_batch};
use crate::tenants::Register;

/// Maximum number of tags: with ten thousand tenants, a hundred for each.
const MAX_TAGS: u32 = 1 << 20;

/// Number of requests of each tenant that are queued or in flight, merged ones counted once; and the sum of the weights of tenants with
/// requests.
#[derive(Default)]
pub(crate) struct TagShares {
    held: Vec<u32>,
    weights: u64,
    /// Whether shares are equal, regardless of weights.
    is_equal: bool,
}

impl TagShares {
    /// Equal shares: a scheduler must see the requests of a tenant with a low weight to keep its reservation.
    pub(crate) fn equal() -> TagShares {
        TagShares { is_equal: true, ..TagShares::default() }
    }

    fn weight(&self, number: usize, register: &Register) -> u64 {
        if self.is_equal { 1 } else { register.weight(number) }
    }

    /// Counts a request of a tenant after its insertion.
    pub(crate) fn inserted(&mut self, number: usize, register: &Register, placed: &Placed) {
        match placed {
            Placed::Queued(_) => self.add(number, self.weight(number, register)),
            Placed::Merged { absorbed: Some(_), .. } => self.removed(number, register),
            Placed::Merged { absorbed: None, .. } => {}
        }
    }

    /// Counts a request of a tenant with this weight.
    pub(crate) fn add(&mut self, number: usize, weight: u64) {
        if self.held.len() <= number {
            self.held.resize(number + 1, 0);
        }
        if self.held[number] == 0 {
            self.weights = self.weights.saturating_add(weight);
        }
        self.held[number] += 1;
    }

    /// Subtracts a request of a tenant that completed or was absorbed. One from before a new roster is ignored.
    pub(crate) fn removed(&mut self, number: usize, register: &Register) {
        let weight = self.weight(number, register);
        let Some(held) = self.held.get_mut(number).filter(|held| **held > 0) else { return };
        *held -= 1;
        if *held == 0 {
            self.weights = self.weights.saturating_sub(weight);
        }
    }

    /// Subtracts requests that were handed over to another scheduler.
    pub(crate) fn drained(&mut self, register: &mut Register, requests: &[Request]) {
        for request in requests {
            let number = register.number(request);
            self.removed(number, register);
        }
    }

    /// As many tags as both counts of a queue without tags (`struct request_list`), or `nr_requests` for each tenant and for all others if
    /// that is more; half of them are shared. So requests that are held back leave tags for other tenants.
    pub(crate) fn tags(room: &Room, register: &Register) -> Tags {
        let tenants = u32::try_from(register.roster().tenants().len()).unwrap_or(u32::MAX);
        let depth = room.nr_requests.saturating_mul(tenants.saturating_add(1).max(2)).min(MAX_TAGS.max(room.nr_requests));
        Tags { depth, wake_batch: wake_batch(room.nr_requests) }
    }

    /// The number of tags that are open to a request.
    pub(crate) fn open_tags(&self, depth: u32, register: &Register, request: &Request) -> u32 {
        let Some(number) = register.find(request) else { return depth };
        let weight = self.weight(number, register);
        let held = self.held.get(number).copied().unwrap_or(0);
        let weights = if held > 0 { self.weights } else { self.weights.saturating_add(weight) };
        tags_open_to_tenant(depth, u64::from(held), weight, weights)
    }
}
