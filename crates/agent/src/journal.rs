//! The values before the agent's, kept on disk.
