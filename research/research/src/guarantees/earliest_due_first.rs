//! The simplest rival of the schedulers with guarantees: earliest due first, with a fixed bound of requests in flight.
//!
//! Each tenant has the clock of its reference disk; its requests are due when that disk would complete them. A due request goes first;
//! otherwise tenants take turns. Requests without a guarantee wait at most a second. No merging, no learned cost but a mean.

use std::collections::HashMap;

use block::tenants::{Register, ServiceTime};
use block::{Insertion, Nanos, Pick, Request, RequestId, Roster, Scheduler, SchedulerSpec, Tunable, Unit};

/// Its declaration.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "earliest-due-first",
    summary: "earliest due first, with a fixed bound of requests in flight",
    source: "Liu and Layland, Scheduling algorithms for multiprogramming in a hard-real-time environment, JACM 1973",
    tunables: &[Tunable::new(Unit::Count, 1..=4096, 2).named("depth", "Maximum number of requests in flight.")],
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |_, values| Box::new(EarliestDueFirst { depth: values[0] as usize, ..EarliestDueFirst::default() }),
};

/// Reserve before the due time.
const RESERVE: u64 = 2_000_000;
/// Maximum wait of requests without a guarantee.
const LONGEST_WAIT: u64 = 1_000_000_000;
/// Assumed cost before the first completion.
const FIRST_COST: u64 = 5_000_000;
/// Maximum lateness that is made up for.
const DEBT: u64 = 500_000_000;
/// Cost of a turn: per request and per sector.
const TURN: (u64, u64) = (1_000_000, 3_000);

#[derive(Default)]
struct Client {
    reference: Option<Box<dyn ServiceTime>>,
    clock: u64,
    open: u32,
    /// Mean reference time of its requests.
    mean: u64,
    turns: u64,
}

struct Queued {
    request: Request,
    number: usize,
    due: Option<u64>,
}

#[derive(Default)]
struct EarliestDueFirst {
    depth: usize,
    register: Register,
    clients: Vec<Client>,
    queue: Vec<Queued>,
    flying: HashMap<RequestId, (usize, u64)>,
    cost: u64,
    last_done: u64,
    best_effort_served: u64,
    turn: u64,
}

impl EarliestDueFirst {
    fn client(&mut self, number: usize) -> &mut Client {
        while self.clients.len() <= number {
            let tenant = self.register.tenant(self.clients.len());
            let reference = tenant.and_then(|tenant| tenant.reference.as_ref()).map(|reference| reference.begin());
            self.clients.push(Client { reference, ..Client::default() });
        }
        &mut self.clients[number]
    }
}

impl Scheduler for EarliestDueFirst {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let number = self.register.number(&request);
        let lba = self.register.roster().tenant_lba_of(&request);
        let (turn, queues) = (self.turn, self.queue.iter().any(|queued| queued.number == number));
        let client = self.client(number);
        if client.open == 0 {
            client.clock = client.clock.max(now.0);
        }
        if !queues {
            client.turns = client.turns.max(turn);
        }
        let open = client.open;
        client.open += 1;
        let clock = Nanos(client.clock);
        let due = client.reference.as_mut().map(|reference| reference.service_time(clock, &Request { lba, ..request }, open).0);
        if let Some(service) = due {
            client.clock += service;
            client.mean = if client.mean == 0 { service } else { client.mean - client.mean / 16 + service / 16 };
        }
        let due = due.map(|_| client.clock);
        self.queue.push(Queued { request, number, due });
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        if self.flying.len() >= self.depth {
            return Pick::WaitUntil(now + Nanos(LONGEST_WAIT));
        }
        let first = (0..self.queue.len()).filter(|&k| self.queue[k].due.is_some()).min_by_key(|&k| self.queue[k].due);
        let other = (0..self.queue.len()).find(|&k| self.queue[k].due.is_none());
        let cost = if self.cost == 0 { FIRST_COST } else { self.cost };
        let lead = (self.flying.len() as u64 + 2) * cost + RESERVE;
        let urgent = first.filter(|&k| self.queue[k].due.is_some_and(|due| due < now.0 + lead));
        let by_turn = (0..self.queue.len()).min_by_key(|&k| self.clients[self.queue[k].number].turns).unwrap_or(0);
        let chosen = other.filter(|_| now.0 > self.best_effort_served + LONGEST_WAIT).or(urgent).unwrap_or(by_turn);
        let Queued { request, number, due } = self.queue.remove(chosen);
        if due.is_none() || other.is_none() {
            self.best_effort_served = now.0;
        }
        self.turn = self.clients[number].turns;
        if urgent.is_none() {
            self.clients[number].turns += TURN.0 + u64::from(request.sectors) * TURN.1;
        }
        self.flying.insert(request.id, (number, now.0));
        Pick::Go(request)
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let Some((number, _)) = self.flying.remove(&request.id) else { return };
        let since = (now.0 - self.last_done).min(service.0);
        self.last_done = now.0;
        self.cost = if self.cost == 0 { since } else { (self.cost * 31 + since) / 32 };
        let client = &mut self.clients[number];
        client.open = client.open.saturating_sub(1);
        if client.reference.is_some() {
            let on_time = now.0 + u64::from(client.open) * client.mean + client.mean / 10;
            client.clock = client.clock.min(on_time).max(now.0.saturating_sub(DEBT));
        }
    }

    fn retune(&mut self, values: &[i64]) {
        self.depth = values[0] as usize;
    }

    fn set_roster(&mut self, roster: &Roster) {
        self.register = Register::new(roster);
        self.clients.clear();
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        out.extend(self.queue.drain(..).map(|queued| queued.request));
    }
}
