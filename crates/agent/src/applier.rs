//! The process that may write: a closed list of attributes with ranges, and the journal.
