//! Schedulers written in Python.
//!
//! ```text
//! class Mine(sw.Scheduler) ─▶ register: a declaration that lives on ─▶ Setting ─▶ PythonScheduler ─▶ insert, pick, completed
//!                                                                                      │ raised
//!                                                                     Failure ◀────────┘  the run stops, and the exception comes out
//! ```
//! A declaration's constructor is a plain function pointer without captures, so a tunable with a single value identifies the class.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use block::held::{Held, MAX_WAITS};
use block::{Insertion, Limits, Nanos, Op, Pick, PriorityClass, Request, Scheduler, SchedulerSpec, Tunable, Unit};
use control::Setting;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::error::{Broken, Invalid};
use crate::work;

/// A request in the queue of a scheduler.
#[pyclass(frozen, name = "Request", module = "seekwise")]
pub struct PyRequest(Request);

#[pymethods]
impl PyRequest {
    /// Identifies the request while it is outstanding; reused after its completion.
    #[getter]
    fn id(&self) -> u32 {
        self.0.id
    }

    /// Number of the stream (process, volume, job) that issued it.
    #[getter]
    fn stream(&self) -> u32 {
        self.0.stream
    }

    /// ``"read"``, ``"write"`` or ``"discard"``.
    #[getter]
    fn op(&self) -> &'static str {
        match self.0.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "discard",
        }
    }

    /// Whether it is a read.
    #[getter]
    fn is_read(&self) -> bool {
        self.0.op == Op::Read
    }

    /// Whether the issuer waits for completion.
    #[getter]
    fn sync(&self) -> bool {
        self.0.sync
    }

    /// ``"realtime"``, ``"best-effort"`` or ``"idle"``, as in ionice(1).
    #[getter]
    fn priority_class(&self) -> &'static str {
        match self.0.priority.class {
            PriorityClass::RealTime => "realtime",
            PriorityClass::BestEffort => "best-effort",
            PriorityClass::Idle => "idle",
        }
    }

    /// Level within the class: 0 (highest) to 7 (lowest).
    #[getter]
    fn priority_level(&self) -> u8 {
        self.0.priority.level
    }

    /// First 512-byte sector.
    #[getter]
    fn lba(&self) -> u64 {
        self.0.lba
    }

    /// Length in 512-byte sectors.
    #[getter]
    fn sectors(&self) -> u32 {
        self.0.sectors
    }

    /// The sector after the last one, ``lba + sectors``.
    #[getter]
    fn end(&self) -> u64 {
        self.0.end()
    }

    /// Time of arrival at the queue, in simulated nanoseconds.
    #[getter]
    fn arrival_ns(&self) -> u64 {
        self.0.arrival.0
    }

    fn __repr__(&self) -> String {
        let Request { id, stream, lba, sectors, .. } = self.0;
        format!("<seekwise.Request {id}: {} of {sectors} sectors at {lba}, stream {stream}>", self.op())
    }
}

/// Holds the first exception of a scheduler in Python, and stops its run.
#[derive(Default)]
pub struct Failure {
    raised: Mutex<Option<PyErr>>,
    has_failed: AtomicBool,
    stop: Arc<AtomicBool>,
}

impl Failure {
    /// A failure that sets this stop flag.
    pub fn stopping(stop: Arc<AtomicBool>) -> Arc<Failure> {
        Arc::new(Failure { stop, ..Failure::default() })
    }

    fn set(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Removes and returns the exception; `None` if none was raised.
    pub fn take(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

thread_local! {
    /// Receives exceptions of schedulers built on this thread.
    static FAILURE: RefCell<Option<Arc<Failure>>> = const { RefCell::new(None) };
}

/// Runs `work`. Exceptions of schedulers that it builds on this thread are stored in `failure` and returned as its error.
pub fn watched<T>(failure: &Arc<Failure>, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    FAILURE.with(|slot| slot.replace(Some(Arc::clone(failure))));
    let result = work();
    FAILURE.with(|slot| slot.replace(None));
    match failure.take() {
        Some(error) => Err(error.into()),
        None => result,
    }
}

/// A registered class.
struct Registered {
    class: Py<PyAny>,
    spec: &'static SchedulerSpec,
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// The tunable that identifies the class.
const CLASS: &str = "python_class";

/// A tunable of a class: name, meaning, minimum, maximum and default.
type Declared = (String, String, i64, i64, i64);

/// Registers a class for the lifetime of the process and returns its number.
#[pyfunction]
pub fn register_scheduler(
    of: Py<PyAny>,
    name: &str,
    summary: &str,
    work_conserving: bool,
    tunables: Vec<Declared>,
) -> PyResult<usize> {
    if control::Setting::parse_scheduler(name).is_ok() {
        return Err(Invalid::of_key("name", format!("{name:?} is a scheduler of Seekwise; give the class another name")).into());
    }
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let number = registered.len();
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let mut all =
        vec![Tunable::new(Unit::Count, number as i64..=number as i64, number as i64).named(CLASS, "The class in Python.")];
    for (name, doc, min, max, default) in &tunables {
        if !(min..=max).contains(&default) {
            return Err(Invalid::of_key("tunables", format!("{name}: {default} should be from {min} to {max}")).into());
        }
        all.push(Tunable::new(Unit::Count, *min..=*max, *default).named(leak(name), leak(doc)));
    }
    let spec = SchedulerSpec {
        name: leak(name),
        summary: leak(summary),
        source: "Python",
        tunables: Box::leak(all.into_boxed_slice()),
        work_conserving,
        starvation_bound: None,
        knowledge: None,
        build,
    };
    if let Err(problem) = block::check_declaration(&spec) {
        return Err(Invalid::of_key("scheduler", problem).into());
    }
    registered.push(Registered { class: of, spec: Box::leak(Box::new(spec)) });
    Ok(number)
}

fn build(_limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
    let number = values.first().copied().unwrap_or_default() as usize;
    let failure = FAILURE.with(|slot| slot.borrow().clone()).unwrap_or_default();
    Box::new(PythonScheduler::new(number, values.get(1..).unwrap_or_default(), failure))
}

/// Setting for a registered class with these values of its tunables.
pub fn setting(number: usize, values: &Bound<'_, PyDict>) -> PyResult<Setting> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Registered { spec, .. }) = registered.get(number) else {
        return Err(Invalid::of_key("scheduler", format!("class {number} is not registered")).into());
    };
    let mut setting = Setting::of(spec);
    for (name, value) in values.iter() {
        let (name, value): (String, i64) = (name.extract()?, value.extract()?);
        let known = || spec.tunables[1..].iter().map(|tunable| tunable.name).collect::<Vec<_>>().join(", ");
        let Some(index) = spec.tunables.iter().skip(1).position(|tunable| tunable.name == name) else {
            return Err(Invalid::of_key("scheduler", format!("{} has no tunable {name:?}; it has {}", spec.name, known())).into());
        };
        if let Err(problem) = spec.tunables[index + 1].check(spec.name, value) {
            return Err(Invalid::of_key("scheduler", problem.to_string()).into());
        }
        setting.values[index + 1] = value;
    }
    Ok(setting)
}

/// Whether the setting's scheduler is written in Python.
pub fn is_python(setting: &Setting) -> bool {
    setting.spec.tunables.first().is_some_and(|tunable| tunable.name == CLASS)
}

/// Checks a class against the rules of all schedulers, on `cases` random arrival scripts.
#[pyfunction]
pub fn check_scheduler(py: Python<'_>, number: usize, cases: u32) -> PyResult<()> {
    let setting = setting(number, &PyDict::new(py))?;
    work::run(py, None, |watcher| {
        let failure = Failure::stopping(watcher.stopper());
        watched(&failure, || {
            block::conformance::conforms(setting.spec, cases)
                .map_err(|rule| anyhow::Error::new(Broken(format!("{}: {rule}", setting.spec.name))))
        })
    })?;
    Ok(())
}

/// Adapter to a scheduler written in Python.
struct PythonScheduler {
    insert: Option<Py<PyAny>>,
    pick: Option<Py<PyAny>>,
    completed: Option<Py<PyAny>>,
    object: Option<Py<PyAny>>,
    held: Held<Py<PyRequest>>,
    number: usize,
    failure: Arc<Failure>,
}

impl PythonScheduler {
    fn new(number: usize, values: &[i64], failure: Arc<Failure>) -> PythonScheduler {
        let mut scheduler =
            PythonScheduler { insert: None, pick: None, completed: None, object: None, held: Held::default(), number, failure };
        let made = Python::attach(|py| scheduler.make(py, values));
        if let Err(error) = made {
            scheduler.failure.set(error);
        }
        scheduler
    }

    fn make(&mut self, py: Python<'_>, values: &[i64]) -> PyResult<()> {
        let (class, names) = {
            let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(Registered { class, spec }) = registered.get(self.number) else { return Ok(()) };
            let names: Vec<&'static str> = spec.tunables[1..].iter().map(|tunable| tunable.name).collect();
            (class.clone_ref(py), names)
        };
        let object = class.bind(py).call0()?;
        for (name, value) in names.iter().zip(values) {
            object.setattr(*name, *value)?;
        }
        (self.insert, self.pick) = (Some(object.getattr("insert")?.unbind()), Some(object.getattr("pick")?.unbind()));
        // The inherited no-op is never called.
        let own = object.getattr("completed")?;
        let is_plain = own.getattr("_does_nothing").is_ok();
        self.completed = (!is_plain).then(|| own.unbind());
        self.object = Some(object.unbind());
        Ok(())
    }

    fn name(&self, py: Python<'_>) -> String {
        let class = self.object.as_ref().map(|object| object.bind(py).get_type());
        class
            .and_then(|class| class.name().ok())
            .map_or_else(|| "the scheduler".to_owned(), |name: Bound<'_, PyString>| name.to_string())
    }

    /// Calls `pick` in Python and validates its result.
    fn picked(&mut self, py: Python<'_>, now: Nanos) -> PyResult<Pick> {
        let Some(pick) = &self.pick else { return Ok(self.held.oldest()) };
        let answer = pick.call1(py, (now.0,))?.into_bound(py);
        let name = || self.name(py);
        let wrong = |name: String, problem: String| Err(Invalid::of_key("scheduler", format!("{name}.pick() {problem}")).into());
        if answer.is_none() {
            return if self.held.queued() == 0 {
                Ok(Pick::Empty)
            } else {
                wrong(name(), format!("returned None, but {} requests are queued", self.held.queued()))
            };
        }
        if let Ok(request) = answer.cast::<PyRequest>() {
            let id = request.get().0.id;
            let is_it = self.held.get(id).is_some_and(|object| object.as_ptr() == request.as_ptr());
            return match is_it.then(|| self.held.dispatch(id)).flatten() {
                Some(request) => Ok(Pick::Go(request)),
                None => wrong(
                    self.name(py),
                    format!("returned request {id}, which is not queued: it was picked before, or is of another run"),
                ),
            };
        }
        match answer.extract::<u64>() {
            Ok(until) if until > now.0 && self.held.queued() > 0 => match self.held.wait_until(Nanos(until)) {
                Some(pick) => Ok(pick),
                None => wrong(
                    self.name(py),
                    format!("named a later time {MAX_WAITS} times in a row, with {} requests queued", self.held.queued()),
                ),
            },
            Ok(until) => {
                wrong(name(), format!("returned the time {until}, which should be later than {} ns, with requests queued", now.0))
            }
            Err(_) => wrong(name(), format!("returned {}; a request, a time in ns or None is wanted", answer.get_type().name()?)),
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.has_failed.load(Ordering::Relaxed)
    }
}

impl Scheduler for PythonScheduler {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        Python::attach(|py| {
            let object = match Py::new(py, PyRequest(request)) {
                Ok(object) => object,
                Err(error) => {
                    self.failure.set(error);
                    return;
                }
            };
            if let Some(insert) = self.insert.as_ref().filter(|_| !self.has_failed())
                && let Err(error) = insert.call1(py, (now.0, &object))
            {
                self.failure.set(error);
            }
            self.held.insert(request, object);
        });
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.has_failed() {
            return self.held.oldest();
        }
        match Python::attach(|py| self.picked(py, now)) {
            Ok(pick) => pick,
            Err(error) => {
                self.failure.set(error);
                self.held.oldest()
            }
        }
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        if let Some(object) = self.held.complete(request.id) {
            Python::attach(|py| {
                if let Some(completed) = self.completed.as_ref().filter(|_| !self.has_failed())
                    && let Err(error) = completed.call1(py, (now.0, &object, service.0))
                {
                    self.failure.set(error);
                }
                drop(object);
            });
        }
    }

    fn retune(&mut self, values: &[i64]) {
        let names: Vec<&'static str> = {
            let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
            registered
                .get(self.number)
                .map_or_else(Vec::new, |of| of.spec.tunables[1..].iter().map(|tunable| tunable.name).collect())
        };
        let set = Python::attach(|py| {
            let Some(object) = &self.object else { return Ok(()) };
            names.iter().zip(values.get(1..).unwrap_or_default()).try_for_each(|(name, value)| object.setattr(py, *name, *value))
        });
        if let Err(error) = set {
            self.failure.set(error);
        }
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        // Requests must also leave the queue on the Python side.
        let mut waiting = Vec::new();
        while self.held.queued() > 0 {
            match self.pick(Nanos(u64::MAX / 2)) {
                Pick::Go(request) => waiting.push(request),
                Pick::WaitUntil(_) | Pick::Empty => match self.held.oldest() {
                    Pick::Go(request) => waiting.push(request),
                    _ => break,
                },
            }
        }
        waiting.sort_by_key(|request| self.held.sequence(request.id));
        for request in &waiting {
            self.held.complete(request.id);
        }
        out.append(&mut waiting);
    }
}
