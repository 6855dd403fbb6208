//! Research reports: text, page and JSON of evaluations, papers and validations. Pure functions of results.

pub mod counting;
pub mod evaluation;
pub mod field;
pub mod paper;
pub mod twin;
pub mod validation;
