//! The device time of each completed request, which is what limits divide.

use block::Nanos;
use observe::Event;

/// Divides the device's time among its completions: each has the time since the one before, or since its dispatch if that is later. Requests
/// that a device serves at once so share its time, and idle time is not counted. [`observe::units`] charges waits instead: there the time
/// since the last completion counts even if the device idled, for someone waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceTime {
    last_completion: Nanos,
}

impl DeviceTime {
    /// The device time of a completed request or flush of the write cache; `None` for other events. Each event of the device must be passed
    /// once, in order of time.
    pub fn of(&mut self, event: &Event) -> Option<Nanos> {
        let (begun, at) = match event {
            Event::Completed { dispatched, at, .. } => (*dispatched, *at),
            Event::Flushed { asked, at, .. } => (*asked, *at),
            Event::Queued(_) | Event::Called { .. } | Event::Returned { .. } => return None,
        };
        let time = at - self.last_completion.max(begun);
        self.last_completion = self.last_completion.max(at);
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_served_at_once_share_the_time_and_idle_time_is_not_counted() {
        let mut device = DeviceTime::default();
        let mut flushed = |asked, at| device.of(&Event::Flushed { stream: 1, asked: Nanos(asked), at: Nanos(at) });
        assert_eq!([flushed(10, 20), flushed(12, 25), flushed(40, 50)], [Some(Nanos(10)), Some(Nanos(5)), Some(Nanos(10))]);
        assert_eq!(flushed(30, 45), Some(Nanos(0)), "reported late");
        assert_eq!(device.of(&Event::Called { stream: 1, at: Nanos(60) }), None);
    }
}
