//! The extension module of the Python package `seekwise`: a thin layer that converts arguments and returns tables and JSON. Public
//! types, units and defaults are defined in the package's Python files.
//!
//! Calls print nothing, leave no thread behind, and release the GIL during long work.

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

/// The extension module, imported by the package's Python files.
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
        testbed::learned::register_learned_devices();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
