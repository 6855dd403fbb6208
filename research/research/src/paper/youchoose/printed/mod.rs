//! The paper's own variant: its scheduler, its model and its migration manager as printed in section III.

pub mod cart;
pub mod clocks;
pub mod hybrid;
pub mod migration;
pub mod trained;
