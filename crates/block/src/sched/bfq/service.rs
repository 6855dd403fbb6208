//! B-WF2Q+: selects the next queue so that each gets service in proportion to its weight (Linux `block/bfq-wf2q.c`).
//!
//! ```text
//! virtual time       |=====v                    advances by service / sum of the weights
//! queue a     start  |--------| finish          a budget takes budget / weight
//! queue b         start  |--------------|       b is eligible from its start on: the eligible queue with the first finish is next
//! queue c                   |---| start > v     c is not eligible yet, however early its finish
//! ```
//!
//! A queue that becomes idle before virtual time reaches its finish is kept until then, as it has had its share up to that time.

use alloc::vec::Vec;

use super::groups::Group;
use crate::sorted::SortedList;
use crate::{Nanos, PriorityClass};

/// Fraction bits of a timestamp (`WFQ_SERVICE_SHIFT`).
const SHIFT: u32 = 22;
/// Interval at which the idle class goes first once, even if others are busy (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS_TIMEOUT: Nanos = Nanos::from_millis(200);
pub(super) const CLASSES: usize = 3;

pub(super) fn class_index(class: PriorityClass) -> usize {
    match class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

/// The virtual time for an amount of service (`bfq_delta`).
fn virtual_span(service: u64, weight: u64) -> u64 {
    (service.min(u64::MAX >> SHIFT) << SHIFT) / weight.max(1)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    /// In the active tree under this key.
    Active(u128),
    /// In the idle tree under this key.
    Idle(u128),
    InService,
}

/// The scheduling state of a queue (`struct bfq_entity`).
#[derive(Clone, Copy, Default)]
pub(super) struct Entity {
    class: usize,
    start: u64,
    finish: u64,
    /// Sectors that it may be served in this turn, and was served.
    pub(super) budget: u64,
    pub(super) service: u64,
    /// Effective weight: `own_weight` times the weight factor at the last update.
    weight: u64,
    own_weight: u64,
    coefficient: u64,
    place: Place,
    /// Its weight is included in the tree's sum.
    on_tree: bool,
    /// It is counted in [`Schedule::weights`].
    counted: bool,
    /// The tenant it belongs to.
    tenant: Option<usize>,
}

impl Entity {
    /// Whether it is in the active or the idle tree; the queue in service is in neither.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.place, Place::Active(_) | Place::Idle(_))
    }

    pub(super) fn new(class: PriorityClass, own_weight: u64) -> Entity {
        Entity { class: class_index(class), weight: own_weight, own_weight, coefficient: 1, ..Entity::default() }
    }

    /// The entity of a tenant's process, with the weight of its group.
    pub(super) fn in_group(self, group: Option<Group>) -> Entity {
        let Some(Group { tenant, weight }) = group else { return self };
        Entity { tenant: Some(tenant), weight, own_weight: weight, ..self }
    }

    pub(super) fn tenant(&self) -> Option<usize> {
        self.tenant
    }

    pub(super) fn budget_left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn own_weight(&self) -> u64 {
        self.own_weight
    }

    /// Current factor of weight raising; 1 if it is not raised.
    pub(super) fn raised_by(&self) -> u64 {
        self.weight / self.own_weight
    }

    pub(super) fn class(&self) -> usize {
        self.class
    }

    fn set_finish(&mut self, service: u64) {
        self.finish = self.start.saturating_add(virtual_span(service, self.weight));
    }
}

/// Queues of one class (`struct bfq_service_tree`).
#[derive(Default)]
struct ServiceTree {
    /// By finish time.
    active: SortedList,
    idle: SortedList,
    virtual_time: u64,
    weight_sum: u64,
}

/// The scheduling state of all queues, by number.
#[derive(Default)]
pub(super) struct Schedule {
    entities: Vec<Entity>,
    trees: [ServiceTree; CLASSES],
    /// Counter that orders queues with equal finish times.
    count: u64,
    idle_class_served: Nanos,
    /// Number of queues of each weight and tenant that have requests queued or in flight, without raised ones (`queue_weights_tree`).
    /// Sorted by weight.
    weights: Vec<WeightCount>,
}

/// Number of queues with one weight and tenant.
struct WeightCount {
    weight: u64,
    tenant: Option<usize>,
    queues: u32,
}

impl Schedule {
    pub(super) fn entity(&self, number: usize) -> &Entity {
        &self.entities[number]
    }

    pub(super) fn entity_mut(&mut self, number: usize) -> &mut Entity {
        &mut self.entities[number]
    }

    /// Stores a new queue under the next number, or under one that was forgotten.
    pub(super) fn set(&mut self, number: usize, entity: Entity) {
        if number == self.entities.len() {
            self.entities.push(entity);
        } else {
            self.entities[number] = entity;
        }
    }

    /// Forgets a queue that is not active and has no request in flight.
    pub(super) fn forget(&mut self, number: usize) {
        if let Place::Idle(_) = self.entities[number].place {
            self.leave_idle(number);
        }
    }

    /// Sets the weight factor from the next activation on (`prio_changed`).
    pub(super) fn set_coefficient(&mut self, number: usize, coefficient: u64) {
        self.entities[number].coefficient = coefficient;
    }

    /// The queues of all active trees, by finish time.
    pub(super) fn active(&self) -> impl Iterator<Item = usize> + '_ {
        self.trees.iter().flat_map(|tree| tree.active.numbers().map(|number| number as usize))
    }

    // Weights in use.

    /// The count of queues with this one's weight and tenant. An entry is never removed.
    fn weight_count(&mut self, number: usize) -> &mut u32 {
        let Entity { own_weight, tenant, .. } = self.entities[number];
        let place = self.weights.binary_search_by_key(&(own_weight, tenant), |count| (count.weight, count.tenant));
        let index = place.unwrap_or_else(|index| {
            self.weights.insert(index, WeightCount { weight: own_weight, tenant, queues: 0 });
            index
        });
        &mut self.weights[index].queues
    }

    /// Adds a queue to the counts of weights (`bfq_weights_tree_add`).
    pub(super) fn count_weight(&mut self, number: usize) {
        if !core::mem::replace(&mut self.entities[number].counted, true) {
            *self.weight_count(number) += 1;
        }
    }

    /// Removes a queue from the counts of weights (`bfq_weights_tree_remove`).
    pub(super) fn uncount_weight(&mut self, number: usize) {
        if core::mem::replace(&mut self.entities[number].counted, false) {
            *self.weight_count(number) -= 1;
        }
    }

    /// Whether busy queues belong to several tenants, or have different weights of which this queue's is not the lowest
    /// (`bfq_asymmetric_scenario`).
    pub(super) fn weights_vary_against(&self, number: usize) -> bool {
        let mut used = self.weights.iter().filter(|count| count.queues > 0);
        let Some(least) = used.next() else { return false };
        let Some(last) = used.clone().next_back() else { return false };
        let entity = &self.entities[number];
        used.any(|other| other.tenant != least.tenant)
            || last.weight != least.weight && !(entity.counted && entity.own_weight == least.weight)
    }

    /// Assigns a queue to a tenant.
    pub(super) fn join(&mut self, number: usize, group: Group) {
        let was_counted = self.entities[number].counted;
        self.uncount_weight(number);
        let entity = &mut self.entities[number];
        (entity.own_weight, entity.tenant) = (group.weight, Some(group.tenant));
        if was_counted {
            self.count_weight(number);
        }
        self.update_weight(number);
    }

    /// Applies a change of weight (`__bfq_entity_update_weight_prio`).
    pub(super) fn update_weight(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        let weight = entity.own_weight * entity.coefficient;
        if weight == entity.weight {
            return;
        }
        if entity.on_tree {
            let sum = &mut self.trees[entity.class].weight_sum;
            *sum = *sum - entity.weight + weight;
        }
        entity.weight = weight;
        let raised = entity.coefficient > 1;
        self.uncount_weight(number);
        if !raised {
            self.count_weight(number);
        }
    }

    // Trees.

    fn enter_active(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        let key = u128::from(entity.finish) << 64 | u128::from(self.count);
        self.count += 1;
        entity.place = Place::Active(key);
        self.trees[entity.class].active.insert(key, number as u32);
    }

    fn leave_active(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        if let Place::Active(key) = entity.place {
            self.trees[entity.class].active.remove(key);
            entity.place = Place::Nowhere;
        }
    }

    /// Removes a queue from the idle tree (`bfq_put_idle_entity`).
    fn leave_idle(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        if let Place::Idle(key) = entity.place {
            self.trees[entity.class].idle.remove(key);
            self.leave_sum(number);
        }
    }

    /// Removes a queue's weight from the sum of its tree (`bfq_forget_entity`).
    fn leave_sum(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        entity.place = Place::Nowhere;
        if core::mem::replace(&mut entity.on_tree, false) {
            self.trees[entity.class].weight_sum -= entity.weight;
        }
    }

    /// Forgets the first idle queue if its finish time has passed (`bfq_forget_idle`).
    fn forget_idle(&mut self, class: usize) {
        let tree = &mut self.trees[class];
        let Some((first, number)) = tree.idle.first() else { return };
        if tree.active.is_empty()
            && let Some((last, _)) = tree.idle.last()
            && (last >> 64) as u64 <= tree.virtual_time
        {
            tree.virtual_time = (last >> 64) as u64;
        }
        if (first >> 64) as u64 <= tree.virtual_time {
            self.leave_idle(number as usize);
        }
    }

    /// Activates a queue. `in_time`: its process was waited for and issued a request soon, so its timestamps continue
    /// (`__bfq_activate_entity`).
    pub(super) fn activate(&mut self, number: usize, in_time: bool) {
        let entity = &self.entities[number];
        let virtual_time = self.trees[entity.class].virtual_time;
        let shifted_back = in_time && virtual_time > entity.finish;
        let earliest = if shifted_back { entity.finish } else { virtual_time };
        if let Place::Idle(key) = entity.place {
            self.trees[entity.class].idle.remove(key);
            let entity = &mut self.entities[number];
            entity.start = earliest.max(entity.finish);
        } else {
            let entity = &mut self.entities[number];
            entity.start = earliest;
            entity.on_tree = true;
            self.trees[entity.class].weight_sum += entity.weight;
        }
        self.enqueue(number, shifted_back);
    }

    /// Computes the finish time and inserts the queue into the active tree (`bfq_update_fin_time_enqueue`).
    fn enqueue(&mut self, number: usize, shifted_back: bool) {
        self.update_weight(number);
        let entity = &mut self.entities[number];
        entity.set_finish(entity.budget);
        let virtual_time = self.trees[entity.class].virtual_time;
        if shifted_back && virtual_time > entity.finish {
            // A queue that is often shifted back would fall further and further behind virtual time, and then occupy the disk for long.
            // Raised ones are pushed less, so that they stay ahead of the others.
            let push = (virtual_time - entity.finish) / entity.raised_by().max(1);
            entity.start += push;
            entity.finish += push;
        }
        self.enter_active(number);
    }

    /// Requeues an active queue after a change of budget, or the one in service (`__bfq_requeue_entity`).
    pub(super) fn requeue(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        if entity.place == Place::InService {
            entity.set_finish(entity.service);
            entity.start = entity.finish;
            entity.place = Place::Nowhere;
        }
        self.leave_active(number);
        self.enqueue(number, false);
    }

    /// Removes a queue without requests (`__bfq_deactivate_entity`).
    pub(super) fn deactivate(&mut self, number: usize) {
        let entity = &mut self.entities[number];
        if !entity.on_tree {
            return;
        }
        // It is charged its service, even if it was injected in another queue's turn.
        entity.set_finish(entity.service);
        match entity.place {
            Place::InService => entity.place = Place::Nowhere,
            _ => entity.service = 0,
        }
        self.leave_active(number);
        let entity = &mut self.entities[number];
        let tree = &mut self.trees[entity.class];
        if entity.finish > tree.virtual_time {
            let key = u128::from(entity.finish) << 64 | u128::from(self.count);
            self.count += 1;
            entity.place = Place::Idle(key);
            tree.idle.insert(key, number as u32);
        } else {
            self.leave_sum(number);
        }
    }

    /// Advances virtual time by service (`bfq_bfqq_served`).
    pub(super) fn serve(&mut self, number: usize, service: u64) {
        let entity = &mut self.entities[number];
        entity.service = entity.service.saturating_add(service);
        let class = entity.class;
        let tree = &mut self.trees[class];
        tree.virtual_time = tree.virtual_time.saturating_add(virtual_span(service, tree.weight_sum));
        self.forget_idle(class);
    }

    /// Puts the next queue in service; `None` if no queue is active (`bfq_get_next_queue`).
    pub(super) fn next(&mut self, now: Nanos) -> Option<usize> {
        let mut class = 0;
        if now > self.idle_class_served + IDLE_CLASS_TIMEOUT {
            // A process of the idle class may hold a lock that others need.
            if !self.trees[CLASSES - 1].active.is_empty() {
                class = CLASSES - 1;
            }
            self.idle_class_served = now;
        }
        let class = (class..CLASSES).find(|&class| !self.trees[class].active.is_empty())?;
        let number = self.next_in_class(class)?;
        self.leave_active(number);
        self.entities[number].place = Place::InService;
        Some(number)
    }

    /// The eligible queue with the first finish time; if none is eligible, virtual time jumps to the first start
    /// (`__bfq_lookup_next_entity`). The kernel finds it in a tree augmented by starts; here few ineligible ones precede it.
    fn next_in_class(&mut self, class: usize) -> Option<usize> {
        let tree = &self.trees[class];
        let mut earliest: Option<(u64, usize)> = None;
        for number in tree.active.numbers() {
            let start = self.entities[number as usize].start;
            if start <= tree.virtual_time {
                return Some(number as usize);
            }
            if earliest.is_none_or(|(other, _)| start < other) {
                earliest = Some((start, number as usize));
            }
        }
        let (start, number) = earliest?;
        self.trees[class].virtual_time = start;
        self.forget_idle(class);
        Some(number)
    }

    /// A queue's share of `limit` by weight among all recently active queues; `None` if it is not one of them. The weights of each class
    /// count eight times those of the next lower class.
    pub(super) fn share_of(&self, number: usize, limit: u64) -> Option<u64> {
        let entity = self.entities.get(number).filter(|entity| entity.on_tree)?;
        let sum = self.trees[..=entity.class].iter().fold(0, |sum, tree| 8 * sum + tree.weight_sum);
        Some((limit * entity.weight + sum / 2) / sum.max(1))
    }

    #[cfg(test)]
    pub(super) fn assert_sums_agree(&self) {
        for (class, tree) in self.trees.iter().enumerate() {
            let on_tree = self.entities.iter().filter(|entity| entity.on_tree && entity.class == class);
            assert_eq!(tree.weight_sum, on_tree.map(|entity| entity.weight).sum::<u64>());
        }
        let counted = self.entities.iter().filter(|entity| entity.counted).count() as u32;
        assert_eq!(self.weights.iter().map(|count| count.queues).sum::<u32>(), counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_returns_in_time_starts_where_it_ended() {
        let virtual_time = virtual_span(80, 40) + virtual_span(400, 40);
        for (in_time, start) in [(true, virtual_span(80, 40)), (false, virtual_time)] {
            let mut schedule = Schedule::default();
            schedule.set(0, Entity::new(PriorityClass::BestEffort, 40));
            schedule.set(1, Entity::new(PriorityClass::BestEffort, 40));
            schedule.entity_mut(0).budget = 1_000;
            schedule.activate(0, false);
            assert_eq!(schedule.next(Nanos::ZERO), Some(0));
            schedule.serve(0, 80);
            schedule.deactivate(0);
            schedule.entity_mut(1).budget = 1_000;
            schedule.activate(1, false);
            assert_eq!(schedule.next(Nanos::ZERO), Some(1));
            schedule.serve(1, 400);
            schedule.entity_mut(0).budget = 1_000;
            schedule.activate(0, in_time);
            assert_eq!(schedule.entity(0).start, start);
        }
    }

    #[test]
    fn a_queue_emptied_in_the_turn_of_another_is_charged_its_service() {
        let mut schedule = Schedule::default();
        for number in 0..2 {
            schedule.set(number, Entity::new(PriorityClass::BestEffort, 40));
            schedule.entity_mut(number).budget = 16_384;
            schedule.activate(number, false);
        }
        assert_eq!(schedule.next(Nanos::ZERO), Some(0));
        schedule.serve(1, 80);
        schedule.deactivate(1);
        schedule.activate(1, false);
        assert_eq!(schedule.entity(1).start, virtual_span(80, 40), "not its whole budget");
    }
}
