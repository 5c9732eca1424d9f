//! What a browser's form sends: `name=value` pairs, percent-encoded.

/// The value of the first field of this name, if the form can be read.
pub(crate) fn field(body: &[u8], name: &str) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| decode(key).as_deref() == Some(name)).find_map(|(_, value)| decode(value))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The text as it can stand in HTML, also within quotes.
pub(crate) fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_by_its_names() {
        let check = |body: &[u8], expected: Option<&str>| {
            assert_eq!(field(body, "Response").as_deref(), expected, "{body:?}");
        };
        check(b"Response=%7B%22a%22%3A+1%7D", Some("{\"a\": 1}"));
        check(b"x=1&Response=caf%C3%A9&Response=2", Some("café"));
        check(b"%52esponse=1", Some("1"));
        check(b"response=1", None);
        check(b"Response=%zz", None);
        check(b"Response=%4", None);
        check(b"Response=%ff", None);
        check(b"Response=\xff", None);
        check(b"", None);
    }

    #[test]
    fn nothing_in_a_text_becomes_markup() {
        assert_eq!(escape("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
    }
}
