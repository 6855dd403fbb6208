//! The extension module of the Python package `seekwise`. It only passes on: arguments in, tables and JSON out. The package's own
//! Python files give both their types, units and defaults.
//!
//! Nothing is printed, no thread is left behind by a call, and long work runs without the interpreter's lock.

mod columns;
mod environment;
mod error;
mod experiments;
mod knowledge_base;
mod rows;
mod scheduler;
mod sweeps;
mod table;
mod traces;
mod work;

/// What the package is built on.
#[pyo3::pymodule]
mod _seekwise {
    #[pymodule_export]
    use super::environment::Tuned;
    #[pymodule_export]
    use super::experiments::{
        advise, compare, controller_list, disk, disks, fit_disk, host_tunables, learn_device, schedulers, simulate, workloads,
    };
    #[pymodule_export]
    use super::knowledge_base::{knowledge_decisions, knowledge_summary, knowledge_windows};
    #[pymodule_export]
    use super::scheduler::{PyRequest, check_scheduler, register_scheduler};
    #[pymodule_export]
    use super::sweeps::{SweepOutput, SweepPlan, SweepWorker, sweep_report, sweep_table, sweep_volumes};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::traces::{Trace, open_trace, trace_formats, trace_from_arrow};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        experiment::learned_device::make_devices();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
