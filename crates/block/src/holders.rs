//! Who holds how much of a queue, for schedulers that keep room in it for everybody.

use alloc::vec::Vec;

use crate::Request;
use crate::queue::Placed;
use crate::sched::{Room, Tags, tags_open_to_tenant, wake_batch};
use crate::tenants::Register;

/// Requests of each tenant that wait or are at the device, a merged one as one; and the weights of all who have any.
#[derive(Default)]
pub(crate) struct Holders {
    held: Vec<u32>,
    weights: u64,
}

impl Holders {
    /// A request of a tenant came, and became this.
    pub(crate) fn comes(&mut self, number: usize, register: &Register, placed: &Placed) {
        match placed {
            Placed::Queued(_) => self.holds_more(number, register.weight(number)),
            Placed::Merged { absorbed: Some(_), .. } => self.leaves(number, register),
            Placed::Merged { absorbed: None, .. } => {}
        }
    }

    fn holds_more(&mut self, number: usize, weight: u64) {
        if self.held.len() <= number {
            self.held.resize(number + 1, 0);
        }
        if self.held[number] == 0 {
            self.weights = self.weights.saturating_add(weight);
        }
        self.held[number] += 1;
    }

    /// A request of a tenant is done, or no longer here. One that came under another roster counts for nothing.
    pub(crate) fn leaves(&mut self, number: usize, register: &Register) {
        let Some(held) = self.held.get_mut(number).filter(|held| **held > 0) else { return };
        *held -= 1;
        if *held == 0 {
            self.weights = self.weights.saturating_sub(register.weight(number));
        }
    }

    /// These requests were handed over to somebody else.
    pub(crate) fn drained(&mut self, register: &mut Register, requests: &[Request]) {
        for request in requests {
            let number = register.number(request);
            self.leaves(number, register);
        }
    }

    /// As many tags as there are in the two counts of a queue that knows none (`struct request_list`): half of them are shared.
    pub(crate) fn tags(room: &Room) -> Tags {
        Tags { depth: room.nr_requests.saturating_mul(2), wake_batch: wake_batch(room.nr_requests) }
    }

    /// How many of the tags are open to a request.
    pub(crate) fn open_tags(&self, depth: u32, register: &Register, request: &Request) -> u32 {
        let Some(number) = register.find(request) else { return depth };
        let weight = register.weight(number);
        let held = self.held.get(number).copied().unwrap_or(0);
        let weights = if held > 0 { self.weights } else { self.weights.saturating_add(weight) };
        tags_open_to_tenant(depth, u64::from(held), weight, weights)
    }
}
