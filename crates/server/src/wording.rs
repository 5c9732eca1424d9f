//! What a parser says of a field, in the words of whoever sent it: which field, and what it must be. The
//! parser speaks of its own types, which are nobody's business.

use crate::Problem;

/// Begins the message of a field that was put aside and read later, when the parser was elsewhere.
pub(crate) const ASIDE: &str = "in field `";

/// A field that could not be read, from what the parser says: its path, or the name in the message where
/// the path is the whole value (an unknown field, a missing one).
pub(crate) fn wrong_field(path: &str, message: &str, whole: &str) -> Problem {
    // What was put aside and read later says itself where it stood.
    let aside = message.strip_prefix(ASIDE).and_then(|rest| rest.split_once("`: "));
    let (path, message) = aside.unwrap_or((path, message));
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split('`').next());
    let field = match (path, named.filter(|name| !name.is_empty())) {
        ("." | "", None) => whole.to_owned(),
        ("." | "", Some(name)) => name.to_owned(),
        (path, Some(name)) if path != name && !path.ends_with(&format!(".{name}")) => {
            format!("{path}.{name}")
        }
        (path, _) => path.to_owned(),
    };
    Problem::invalid(&shortened(&field), shortened(&detail(message)))
}

/// A field's name and what is said of it are the client's own words in part: they are not echoed at length.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    if text.len() <= CHARS_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(CHARS_MAX).collect();
    format!("{kept}…")
}

fn detail(message: &str) -> String {
    if let Some(known) = message.strip_prefix("unknown field `") {
        return match known.split_once("`, expected ") {
            Some((_, known)) => {
                format!("is not known here; there is {}", names(known.trim_start_matches("one of ")))
            }
            None => "is not known here".to_owned(),
        };
    }
    if message.starts_with("missing field `") {
        return "is missing".to_owned();
    }
    if message.starts_with("duplicate field `") {
        return "stands twice".to_owned();
    }
    if let Some((_, known)) =
        message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        return format!("must be {}", names(known));
    }
    if let Some((_, wanted)) =
        message.strip_prefix("invalid ").and_then(|rest| rest.rsplit_once(", expected "))
    {
        return if is_beyond(message, wanted) {
            "is too large".to_owned()
        } else {
            format!("must be {}", sort(wanted))
        };
    }
    // A number or a word in a query, which its own type has refused.
    if message.contains("invalid digit") || message.contains("empty string") {
        return "must be a whole number".to_owned();
    }
    if message.starts_with("number too ") {
        return "is too large".to_owned();
    }
    if message.starts_with("provided string was not `true` or `false`") {
        return "must be true or false".to_owned();
    }
    // A name's own refusal begins with the name of what it checks; the field says it already.
    let own = ["collection: ", "item: ", "status: ", "session: ", "claim: ", "data: "];
    own.iter().find_map(|start| message.strip_prefix(start)).unwrap_or(message).to_owned()
}

/// A whole number, but one that the type has no room for. Beyond its widest the parser takes it for a fraction.
fn is_beyond(message: &str, wanted: &str) -> bool {
    /// From here on every fraction is whole.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    let number = message.split('`').nth(1).and_then(|number| number.parse::<f64>().ok());
    let beyond = if message.starts_with("invalid value: integer ") { 0.0 } else { WHOLE };
    sort(wanted).starts_with("a whole number") && number.is_some_and(|number| number >= beyond)
}

/// Backquotes are the parser's.
fn names(list: &str) -> String {
    list.replace('`', "")
}

/// What the parser wanted.
fn sort(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" | "variant identifier" => "a string",
        _ if wanted.starts_with("struct ") => "an object",
        _ if wanted.starts_with("any valid JSON value") => "JSON",
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let check = |path: &str, message: &str, expected: &str| {
            assert_eq!(wrong_field(path, message, "body").detail, expected);
        };
        check(
            ".",
            "unknown field `x`, expected one of `a`, `b`, `c`",
            "x: is not known here; there is a, b, c",
        );
        check("subject", "unknown field `x`, there are no fields", "subject.x: is not known here");
        check(".", "unknown field ``, there are no fields", "body: is not known here");
        check(".", "missing field `items`", "items: is missing");
        check("items", "duplicate field `items`", "items: stands twice");
        check("role", "unknown variant `x`, expected `a` or `b`", "role: must be a or b");
        check(
            "ttl_ms",
            "invalid type: string \"x, expected y\", expected i64",
            "ttl_ms: must be a whole number",
        );
        check(
            "token",
            "invalid value: integer `-1`, expected u64",
            "token: must be a whole number, 0 or more",
        );
        for (message, expected) in [
            ("invalid value: integer `4294967296`, expected u32", "n: is too large"),
            ("invalid type: floating point `1e20`, expected u64", "n: is too large"),
            ("invalid type: floating point `1.5`, expected u64", "n: must be a whole number, 0 or more"),
            ("invalid type: floating point `-1e20`, expected i64", "n: must be a whole number"),
            ("invalid type: string \"`1e20`\", expected a sequence", "n: must be a list"),
        ] {
            check("n", message, expected);
        }
        check(".", "invalid type: sequence, expected an object", "body: must be an object");
        check("limit", "invalid digit found in string", "limit: must be a whole number");
        check("a.b", "unknown field `a.b`, there are no fields", "a.b: is not known here");
        check(".", "in field `items[1]`: invalid type: map, expected a string", "items[1]: must be a string");
        check("items[0]", "item: has 1 to 256 bytes", "items[0]: has 1 to 256 bytes");
    }
}
