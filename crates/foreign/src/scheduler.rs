//! An instance of a library's scheduler.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::PoisonError;

use block::held::{Held, MAX_WAITS};
use block::{Insertion, Limits, Nanos, Op, Pick, PriorityClass, Request, Scheduler};

use crate::interface::{self, DISPATCH, EMPTY, WAIT};
use crate::{LOADED, Loaded};

/// Builds an instance for the library with the number in the first value.
pub fn build(_limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let number = values.first().and_then(|number| usize::try_from(*number).ok());
    let of = number.and_then(|number| loaded.get(number).copied());
    let instance = of.and_then(|of| Instance::new(of, values.get(1..).unwrap_or_default().to_vec()));
    Box::new(Foreign { instance, held: Held::default() })
}

/// The object behind a library's pointer, which only this owns.
struct Instance {
    library: &'static Loaded,
    object: NonNull<c_void>,
    values: Vec<i64>,
}

// SAFETY: the interface allows calls from any thread, one at a time; `&mut self` and ownership see to the latter.
unsafe impl Send for Instance {}

impl Instance {
    /// `None` if there is no memory, which is a violation.
    fn new(library: &'static Loaded, values: Vec<i64>) -> Option<Instance> {
        // SAFETY: as many values as the declaration has tunables, within their ranges.
        let object = library.declaration.create.and_then(|create| NonNull::new(unsafe { create(values.as_ptr()) }));
        let Some(object) = object else {
            let _ = library.violation.set("create returned NULL".to_owned());
            return None;
        };
        Some(Instance { library, object, values })
    }

    fn insert(&mut self, now: Nanos, request: &Request) {
        let class = match request.priority.class {
            PriorityClass::RealTime => 1,
            PriorityClass::BestEffort => 2,
            PriorityClass::Idle => 3,
        };
        let request = interface::Request {
            lba: request.lba,
            arrival_ns: request.arrival.0,
            sectors: request.sectors,
            id: request.id,
            stream: request.stream,
            op: match request.op {
                Op::Read => 0,
                Op::Write => 1,
                Op::Discard => 2,
            },
            sync: request.sync.into(),
            priority_class: class,
            priority_level: request.priority.level,
        };
        if let Some(insert) = self.library.declaration.insert {
            // SAFETY: the object is alive, and the request is valid during the call.
            unsafe { insert(self.object.as_ptr(), now.0, &raw const request) };
        }
    }

    /// The answer, the request's id and the time.
    fn pick(&mut self, now: Nanos) -> (i32, u32, u64) {
        let (mut id, mut until) = (u32::MAX, 0);
        // SAFETY: the object is alive, and both places are valid during the call.
        let answer =
            self.library.declaration.pick.map(|pick| unsafe { pick(self.object.as_ptr(), now.0, &raw mut id, &raw mut until) });
        (answer.unwrap_or(EMPTY), id, until)
    }

    fn completed(&mut self, now: Nanos, id: u32, service: Nanos) {
        if let Some(completed) = self.library.declaration.completed {
            // SAFETY: the object is alive.
            unsafe { completed(self.object.as_ptr(), now.0, id, service.0) };
        }
    }

    fn retune(&mut self, values: &[i64]) {
        self.values = values.to_vec();
        if let Some(retune) = self.library.declaration.retune {
            // SAFETY: the object is alive; as many values as the declaration has tunables.
            unsafe { retune(self.object.as_ptr(), self.values.as_ptr()) };
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.declaration.destroy {
            // SAFETY: the object is alive, and this is the last call.
            unsafe { destroy(self.object.as_ptr()) };
        }
    }
}

/// Adapter that checks every answer.
struct Foreign {
    /// `None` after a violation: then requests go in order of arrival.
    instance: Option<Instance>,
    held: Held<()>,
}

impl Foreign {
    /// The checked answer of the library.
    fn picked(&mut self, now: Nanos) -> Result<Pick, String> {
        let Some(instance) = &mut self.instance else { return Ok(self.held.oldest()) };
        let queued = self.held.queued();
        match instance.pick(now) {
            (EMPTY, ..) if queued == 0 => Ok(Pick::Empty),
            (EMPTY, ..) => Err(format!("pick answered that nothing is queued, but {queued} requests are")),
            (DISPATCH, id, _) => {
                let request = self.held.dispatch(id).ok_or_else(|| format!("pick dispatched request {id}, which is not queued"))?;
                Ok(Pick::Go(request))
            }
            (WAIT, _, until) if until > now.0 && queued > 0 && instance.library.spec.work_conserving => {
                Err(format!("pick waits with {queued} requests queued, but the declaration says work_conserving = 1"))
            }
            (WAIT, _, until) if until > now.0 && queued > 0 => self
                .held
                .wait_until(Nanos(until))
                .ok_or_else(|| format!("pick named a later time {MAX_WAITS} times in a row, with {queued} requests queued")),
            (WAIT, _, until) => {
                Err(format!("pick waits until {until} ns with {queued} requests queued; it may wait with any, beyond {} ns", now.0))
            }
            (answer, ..) => Err(format!("pick returned {answer}; an enum seekwise_answer is wanted")),
        }
    }
}

impl Scheduler for Foreign {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.held.insert(request, ());
        if let Some(instance) = &mut self.instance {
            instance.insert(now, &request);
        }
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.picked(now).unwrap_or_else(|problem| {
            if let Some(instance) = self.instance.take() {
                let _ = instance.library.violation.set(problem);
            }
            self.held.oldest()
        })
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let is_known = self.held.complete(request.id).is_some();
        if let Some(instance) = self.instance.as_mut().filter(|_| is_known) {
            instance.completed(now, request.id, service);
        }
    }

    fn retune(&mut self, values: &[i64]) {
        if let Some(instance) = &mut self.instance {
            instance.retune(values.get(1..).unwrap_or_default());
        }
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.held.drain(out);
        // The library cannot be told to forget its requests: another object begins without any.
        self.instance = self.instance.take().and_then(|instance| Instance::new(instance.library, instance.values.clone()));
    }
}
