//! The applications' limits, each with its reason.

/// How often a change is tried anew when somebody else was faster. Each try loses only to a change that
/// was committed meanwhile, so this many in a row is a stampede: better to say so.
pub(crate) const ATTEMPTS_MAX: usize = 100;
/// Rows that one page of a list looks at: a filter that keeps few of them gets a short page and a cursor.
pub(crate) const SCAN_MAX: usize = 10_000;
