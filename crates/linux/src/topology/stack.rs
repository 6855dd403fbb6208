//! Stacks of devices, and which devices of a stack are tuned.

use super::{Device, DriverKind};

/// Devices that are stacked on each other and tuned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// All its devices, the lowest first.
    pub devices: Vec<String>,
    /// The devices with queues: schedulers and tunables are set here, the same for all, and requests are observed here.
    pub queues: Vec<String>,
    /// The top devices, from which the page cache takes the read-ahead.
    pub tops: Vec<String>,
    /// Why the whole stack is not tuned unless requested, with the device's name: `sda is read-only`. A single volume on it that must not
    /// be tuned is merely missing among the tops. `None` if it is tuned.
    pub left_alone: Option<String>,
}

/// The stacks of these devices, in the order of their first devices. A device that is not stacked is a stack, too.
pub fn stacks(devices: &[Device]) -> Vec<Stack> {
    // The stack of each device, as the index of its first device.
    let mut stack: Vec<usize> = (0..devices.len()).collect();
    let place = |name: &String| devices.iter().position(|device| device.name == *name);
    for (number, device) in devices.iter().enumerate() {
        for other in device.holders.iter().chain(&device.below).filter_map(place) {
            let (one, other) = (stack[number], stack[other]);
            stack.iter_mut().filter(|stack| **stack == one.max(other)).for_each(|stack| *stack = one.min(other));
        }
    }
    let mut found = Vec::new();
    for first in 0..devices.len() {
        let mut members: Vec<&Device> =
            devices.iter().zip(&stack).filter(|(_, of)| **of == first).map(|(device, _)| device).collect();
        if !members.is_empty() {
            members.sort_by_key(|device| height(device, devices, 0));
            found.push(Stack::of(&members));
        }
    }
    found
}

/// The longest path down from it. Linux permits no cycles; the depth is limited in case a folder claims one.
fn height(device: &Device, devices: &[Device], depth: usize) -> usize {
    if depth > devices.len() {
        return 0;
    }
    let below = devices.iter().filter(|other| device.below.contains(&other.name));
    below.map(|other| 1 + height(other, devices, depth + 1)).max().unwrap_or(0)
}

impl Stack {
    fn of(members: &[&Device]) -> Stack {
        let names =
            |of: &dyn Fn(&Device) -> bool| members.iter().filter(|one| of(one)).map(|one| one.name.clone()).collect::<Vec<_>>();
        let queues = names(&|device| device.has_queue && device.kind != DriverKind::Memory);
        let counts = |device: &&&Device| queues.is_empty() || queues.contains(&device.name);
        let reason =
            members.iter().filter(counts).find_map(|device| Some(format!("{} {}", device.name, device.left_alone.as_ref()?)));
        let none = || format!("{} has no queue in which requests could wait", members[0].name);
        let left_alone = reason.or_else(|| queues.is_empty().then(none));
        let tops = names(&|device| is_top(device) && (left_alone.is_some() || device.left_alone.is_none()));
        Stack { devices: names(&|_| true), queues, tops, left_alone }
    }
}

/// Whether it is used by anything other than a block device: a filesystem, a program.
fn is_top(device: &Device) -> bool {
    match device.partitions.as_slice() {
        [] => device.holders.is_empty(),
        partitions => partitions.iter().any(|partition| partition.holders.is_empty()),
    }
}
