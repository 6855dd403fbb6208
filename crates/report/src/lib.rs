//! Records of runs in; tables, plots and pages out. Pure functions of files.

pub mod record;
