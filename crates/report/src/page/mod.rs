//! Self-contained HTML pages: no network, no script. Needs the feature `pages`.

pub mod advice;
mod advised;
mod comparison;
pub mod device_model;

pub use comparison::html;
