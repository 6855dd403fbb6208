//! The guarantee of a tenant, as the time of a disk.

use alloc::boxed::Box;

use crate::rates::Reservation;
use crate::tenants::ServiceTime;
use crate::{Nanos, Request, Tenant};

/// The disk that guarantees a tenant's service: its reference disk; its reservation, as a disk with just that rate; a bound of its response
/// time, as a disk that takes that long for each request. If there are several, the fastest for each request; `None`: no guarantee.
pub(crate) fn promised(tenant: &Tenant) -> Option<Box<dyn ServiceTime>> {
    let disk = tenant.reference.as_ref().map(|reference| reference.begin());
    let rate = Reservation::new(&tenant.rates);
    if rate.is_none() && tenant.latency_p99.is_none() {
        return disk;
    }
    Some(Box::new(Fastest { disk, rate, each: tenant.latency_p99 }))
}

/// Whether two tenants are promised the same.
pub(crate) fn is_same(one: &Tenant, other: &Tenant) -> bool {
    let is_same_disk = match (&one.reference, &other.reference) {
        (Some(one), Some(other)) => alloc::sync::Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    is_same_disk && one.rates == other.rates && one.latency_p99 == other.latency_p99
}

struct Fastest {
    disk: Option<Box<dyn ServiceTime>>,
    rate: Option<Reservation>,
    each: Option<Nanos>,
}

impl ServiceTime for Fastest {
    fn service_time(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos {
        let disk = self.disk.as_mut().map(|disk| disk.service_time(start, request, waiting));
        let rate = self.rate.map(|rate| rate.span(request));
        [disk, rate, self.each].into_iter().flatten().min().unwrap_or(Nanos::ZERO)
    }

    fn take_responses(&mut self, each: &mut dyn FnMut(Nanos)) {
        // With a rate, the disk's own responses do not define the guarantee.
        if let (Some(disk), None) = (&mut self.disk, self.rate) {
            disk.take_responses(each);
        }
    }
}
