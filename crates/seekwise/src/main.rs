//! The program: parses the command line, wires the crates together, holds no logic.

fn main() {}
