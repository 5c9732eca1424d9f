//! Progress bars, the same everywhere. Without a terminal they are silent.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total` units of work.
pub(crate) fn bar(message: &'static str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {wide_bar} {human_pos}/{human_len} {eta:>4}")
        .expect("a valid template");
    ProgressBar::new(total).with_style(style).with_message(message)
}
