//! The binary `tenure`.
fn main() {}
