//! Plots of papers and of validations, each a function from results to SVG.

mod series;
mod side_by_side;

pub(crate) use series::series;
pub(crate) use side_by_side::side_by_side;
