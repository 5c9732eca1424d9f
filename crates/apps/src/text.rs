//! Words that people give to things.

use crate::{Refusal, Result};

/// A title or a name: trimmed, not empty, without control characters, of at most so many bytes.
pub(crate) fn title(field: &str, text: &str, bytes_max: usize) -> Result<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
        let message = format!("has 1 to {bytes_max} bytes and no control characters");
        return Err(Refusal::invalid(field, message));
    }
    Ok(text.to_owned())
}

/// A word for programs: 1 to 64 of A-Z, a-z, 0-9 and . _ - , but neither . nor ..
pub(crate) fn code<'a>(field: &str, text: &'a str) -> Result<&'a str> {
    if is_code(text) {
        Ok(text)
    } else {
        Err(Refusal::invalid(field, "has 1 to 64 of A-Z, a-z, 0-9 and . _ -"))
    }
}

/// The text is such a word.
pub(crate) fn is_code(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    plain && !text.is_empty() && text.len() <= CODE_BYTES_MAX && text != "." && text != ".."
}

/// What stands in ids and in paths.
const CODE_BYTES_MAX: usize = 64;
