//! An instance of a library's scheduler.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError};

use block::{Insertion, Limits, Nanos, Op, Pick, PriorityClass, Request, Scheduler};

use crate::interface::{self, DISPATCH, Declaration, EMPTY, WAIT};
use crate::{LOADED, Loaded};

/// Maximum consecutive answers with a later time; more count as an endless wait. At a microsecond each, ten times the longest idling of a
/// Linux scheduler (`slice_idle` of bfq, 8 ms).
const MAX_WAITS: u32 = 100_000;

/// Builds an instance for the library with the number in the first value.
pub fn build(_limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let number = values.first().and_then(|number| usize::try_from(*number).ok());
    let of = number.and_then(|number| loaded.get(number));
    let instance = of.and_then(|Loaded { declaration, violation, .. }| {
        Instance::new(declaration, values.get(1..).unwrap_or_default().to_vec(), Arc::clone(violation))
    });
    Box::new(Foreign { instance, known: Vec::new(), queued: 0, sequence: 0, waits: 0 })
}

/// The object behind a library's pointer, which only this owns.
struct Instance {
    declaration: &'static Declaration,
    object: NonNull<c_void>,
    values: Vec<i64>,
    violation: Arc<OnceLock<String>>,
}

// SAFETY: the interface allows calls from any thread, one at a time; `&mut self` and ownership see to the latter.
unsafe impl Send for Instance {}

impl Instance {
    /// `None` if there is no memory, which is a violation.
    fn new(declaration: &'static Declaration, values: Vec<i64>, violation: Arc<OnceLock<String>>) -> Option<Instance> {
        // SAFETY: as many values as the declaration has tunables, within their ranges.
        let object = declaration.create.and_then(|create| NonNull::new(unsafe { create(values.as_ptr()) }));
        let Some(object) = object else {
            let _ = violation.set("create returned NULL".to_owned());
            return None;
        };
        Some(Instance { declaration, object, values, violation })
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
        if let Some(insert) = self.declaration.insert {
            // SAFETY: the object is alive, and the request is valid during the call.
            unsafe { insert(self.object.as_ptr(), now.0, &raw const request) };
        }
    }

    /// The answer, the request's id and the time.
    fn pick(&mut self, now: Nanos) -> (i32, u32, u64) {
        let (mut id, mut until) = (u32::MAX, 0);
        // SAFETY: the object is alive, and both places are valid during the call.
        let answer = self.declaration.pick.map(|pick| unsafe { pick(self.object.as_ptr(), now.0, &raw mut id, &raw mut until) });
        (answer.unwrap_or(EMPTY), id, until)
    }

    fn completed(&mut self, now: Nanos, id: u32, service: Nanos) {
        if let Some(completed) = self.declaration.completed {
            // SAFETY: the object is alive.
            unsafe { completed(self.object.as_ptr(), now.0, id, service.0) };
        }
    }

    fn retune(&mut self, values: &[i64]) {
        self.values = values.to_vec();
        if let Some(retune) = self.declaration.retune {
            // SAFETY: the object is alive; as many values as the declaration has tunables.
            unsafe { retune(self.object.as_ptr(), self.values.as_ptr()) };
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.declaration.destroy {
            // SAFETY: the object is alive, and this is the last call.
            unsafe { destroy(self.object.as_ptr()) };
        }
    }
}

/// A request in the queue or at the device.
struct Known {
    request: Request,
    /// Number of requests inserted before it.
    sequence: u64,
    is_queued: bool,
}

/// Adapter that checks every answer.
struct Foreign {
    /// `None` after a violation: then requests go in order of arrival.
    instance: Option<Instance>,
    /// By id.
    known: Vec<Option<Known>>,
    queued: usize,
    sequence: u64,
    /// Consecutive answers with a time since the last arrival, dispatch or completion.
    waits: u32,
}

impl Foreign {
    /// The checked answer of the library.
    fn picked(&mut self, now: Nanos) -> Result<Pick, String> {
        let Some(instance) = &mut self.instance else { return Ok(self.oldest()) };
        let queued = self.queued;
        match instance.pick(now) {
            (EMPTY, ..) if queued == 0 => Ok(Pick::Empty),
            (EMPTY, ..) => Err(format!("pick answered that nothing is queued, but {queued} requests are")),
            (DISPATCH, id, _) => match self.known.get_mut(id as usize).and_then(Option::as_mut).filter(|known| known.is_queued) {
                Some(known) => {
                    known.is_queued = false;
                    self.queued -= 1;
                    self.waits = 0;
                    Ok(Pick::Go(known.request))
                }
                None => Err(format!("pick dispatched request {id}, which is not queued")),
            },
            (WAIT, ..) if self.waits >= MAX_WAITS => {
                Err(format!("pick named a later time {MAX_WAITS} times in a row, with {queued} requests queued"))
            }
            (WAIT, _, until) if until > now.0 && queued > 0 => {
                self.waits += 1;
                Ok(Pick::WaitUntil(Nanos(until)))
            }
            (WAIT, _, until) => {
                Err(format!("pick waits until {until} ns with {queued} requests queued; it may wait with any, beyond {} ns", now.0))
            }
            (answer, ..) => Err(format!("pick returned {answer}; an enum seekwise_answer is wanted")),
        }
    }

    /// The request that came first.
    fn oldest(&mut self) -> Pick {
        let queued = self.known.iter_mut().flatten().filter(|known| known.is_queued);
        queued.min_by_key(|known| known.sequence).map_or(Pick::Empty, |known| {
            known.is_queued = false;
            self.queued -= 1;
            Pick::Go(known.request)
        })
    }
}

impl Scheduler for Foreign {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let slot = request.id as usize;
        if self.known.len() <= slot {
            self.known.resize_with(slot + 1, || None);
        }
        self.known[slot] = Some(Known { request, sequence: self.sequence, is_queued: true });
        self.queued += 1;
        self.sequence += 1;
        self.waits = 0;
        if let Some(instance) = &mut self.instance {
            instance.insert(now, &request);
        }
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.picked(now).unwrap_or_else(|problem| {
            if let Some(instance) = self.instance.take() {
                let _ = instance.violation.set(problem);
            }
            self.oldest()
        })
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.waits = 0;
        let known = self.known.get_mut(request.id as usize).and_then(Option::take);
        if let Some(instance) = self.instance.as_mut().filter(|_| known.is_some()) {
            instance.completed(now, request.id, service);
        }
    }

    fn retune(&mut self, values: &[i64]) {
        if let Some(instance) = &mut self.instance {
            instance.retune(values.get(1..).unwrap_or_default());
        }
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let begin = out.len();
        while let Pick::Go(request) = self.oldest() {
            out.push(request);
        }
        for request in &out[begin..] {
            self.known[request.id as usize] = None;
        }
        // The library cannot be told to forget its requests: another object begins without any.
        self.instance = self.instance.take().and_then(|Instance { declaration, ref values, ref violation, .. }| {
            Instance::new(declaration, values.clone(), Arc::clone(violation))
        });
    }
}
