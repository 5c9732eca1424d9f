//! The embedded store: one process owns a data folder.

pub mod disk;
