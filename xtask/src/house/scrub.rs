//! Rust source without its comments and literals, so that a rule about code is not broken by prose.

/// The source with comments and literals blanked out. Every line and column stays where it was.
pub(super) fn code_only(source: &str) -> String {
    let source = source.as_bytes();
    let mut code = Vec::with_capacity(source.len());
    while code.len() < source.len() {
        let start = code.len();
        match prose_length(&source[start..]) {
            0 => code.push(source[start]),
            length => {
                let prose = &source[start..(start + length).min(source.len())];
                code.extend(prose.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            }
        }
    }
    String::from_utf8(code).expect("whole characters are blanked")
}

/// The length of the comment or literal that begins here; 0 where none does.
fn prose_length(rest: &[u8]) -> usize {
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => 1 + until_quote(&rest[1..], b'"'),
        [b'r', ..] => raw_string(rest),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length up to and with the closing quote, escapes minded.
fn until_quote(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let open = hashes + 2;
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inside = rest[open..].windows(end.len()).position(|window| window == end);
    inside.map_or(rest.len(), |inside| open + inside + end.len())
}

/// A character, not a lifetime: an escape, or one character and a quote.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => 1 + until_quote(&rest[1..], b'\''),
        Some(first) => {
            let length = 1 + (2..5).take_while(|bits| first.leading_ones() >= *bits).count();
            if rest.get(1 + length) == Some(&b'\'') { length + 2 } else { 0 }
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(code_only(source), expected);
    }

    #[test]
    fn comments_are_blanked() {
        check("a // unsafe\nb", "a          \nb");
        check("a /* x /* y */ z */ b", "a                   b");
    }

    #[test]
    fn strings_are_blanked_with_their_quotes() {
        check(r#"f("a\"b") + 1"#, "f(      ) + 1");
        check("f(r#\"a\"b\"#) + 1", "f(        ) + 1");
        check("let a = \"one\ntwo\";", "let a =     \n    ;");
    }

    #[test]
    fn characters_are_blanked_and_lifetimes_stay() {
        check("('\"', 'é', '\\'') + 1", "(   ,     ,     ) + 1");
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
    }

    #[test]
    fn identifiers_that_look_like_raw_strings_stay() {
        check("r#type + rest", "r#type + rest");
    }

    #[test]
    fn an_open_end_does_not_run_over() {
        check("a \"b\\", "a    ");
        check("a /* b", "a     ");
    }
}
