//! The declarations of `seekwise_scheduler.h` in Rust.

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub const VERSION: u32 = 1;

/// Answers of `pick`.
pub const EMPTY: c_int = 0;
pub const DISPATCH: c_int = 1;
pub const WAIT: c_int = 2;

#[repr(C)]
pub struct Request {
    pub lba: u64,
    pub arrival_ns: u64,
    pub sectors: u32,
    pub id: u32,
    pub stream: u32,
    pub op: u8,
    pub sync: u8,
    pub priority_class: u8,
    pub priority_level: u8,
}

#[repr(C)]
pub struct Tunable {
    pub name: *const c_char,
    pub doc: *const c_char,
    pub min: i64,
    pub max: i64,
    pub initial: i64,
}

pub type Create = unsafe extern "C" fn(*const i64) -> *mut c_void;
pub type Destroy = unsafe extern "C" fn(*mut c_void);
pub type Retune = unsafe extern "C" fn(*mut c_void, *const i64);
pub type Insert = unsafe extern "C" fn(*mut c_void, u64, *const Request);
pub type Choose = unsafe extern "C" fn(*mut c_void, u64, *mut u32, *mut u64) -> c_int;
pub type Completed = unsafe extern "C" fn(*mut c_void, u64, u32, u64);

#[repr(C)]
pub struct Declaration {
    pub version: u32,
    pub work_conserving: u32,
    pub name: *const c_char,
    pub summary: *const c_char,
    pub tunables: *const Tunable,
    pub tunable_count: usize,
    pub create: Option<Create>,
    pub destroy: Option<Destroy>,
    pub retune: Option<Retune>,
    pub insert: Option<Insert>,
    pub pick: Option<Choose>,
    pub completed: Option<Completed>,
}

// SAFETY: a declaration is constant data of a library that is never unloaded.
unsafe impl Sync for Declaration {}
// SAFETY: as above.
unsafe impl Send for Declaration {}
