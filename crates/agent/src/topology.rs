//! The block devices of this machine, what stands on what, and which of them is left alone.
