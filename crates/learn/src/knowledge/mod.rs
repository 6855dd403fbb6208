//! The knowledge base: one SQLite file with windows, requests, models and decisions.
