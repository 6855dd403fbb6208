//! Devices that stand on each other, and which of them is tuned.

use super::{Device, Kind};

/// What belongs together and is tuned as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// All its devices, the lowest first.
    pub devices: Vec<String>,
    /// Where requests queue: the scheduler and its tunables are set here, and requests are observed here. All are treated alike.
    pub queues: Vec<String>,
    /// Where the page cache takes the read-ahead from: devices that nothing else stands on.
    pub tops: Vec<String>,
    /// Why all of it is left alone unless asked for, with the device's name: `sda is read-only`. A volume on it that is to be left
    /// alone by itself is just not among the tops.
    pub left_alone: Option<String>,
}

/// The stacks that these devices make, in the order of their first devices. A device that stands alone is a stack as well.
pub fn stacks(devices: &[Device]) -> Vec<Stack> {
    // Each device's stack by the number of its first one.
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

/// The longest way down from it. Linux lets no device stand on itself; a folder that says so is not followed for ever.
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
        let queues = names(&|device| device.has_queue && device.kind != Kind::Memory);
        let counts = |device: &&&Device| queues.is_empty() || queues.contains(&device.name);
        let reason =
            members.iter().filter(counts).find_map(|device| Some(format!("{} {}", device.name, device.left_alone.as_ref()?)));
        let none = || format!("{} has no queue in which requests could wait", members[0].name);
        let left_alone = reason.or_else(|| queues.is_empty().then(none));
        let tops = names(&|device| is_top(device) && (left_alone.is_some() || device.left_alone.is_none()));
        Stack { devices: names(&|_| true), queues, tops, left_alone }
    }
}

/// Whether something reads from it that is no block device: a filesystem, a program.
fn is_top(device: &Device) -> bool {
    match device.partitions.as_slice() {
        [] => device.holders.is_empty(),
        partitions => partitions.iter().any(|partition| partition.holders.is_empty()),
    }
}
