//! What may be set, where it is, in which order, and what is odd about it.
