//! Tasks: T1 to T22.

mod world;

mod lock;
