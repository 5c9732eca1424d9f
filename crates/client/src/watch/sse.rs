//! Server-sent events out of bytes, however they are cut.

/// The longest line that is read; an event is smaller.
const LINE_BYTES_MAX: usize = 1 << 20;

/// One event of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) event: String,
    pub(super) data: String,
    pub(super) id: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    message: Message,
}

impl Parser {
    /// The messages that these bytes complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, &'static str> {
        let mut messages = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line).map_err(|_| "the stream is not UTF-8")?;
            messages.extend(self.take(line));
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE_BYTES_MAX || self.message.data.len() > LINE_BYTES_MAX {
            return Err("a line of the stream does not end");
        }
        Ok(messages)
    }

    fn take(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return (!message.data.is_empty() || !message.event.is_empty()).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.message.event),
            "id" => self.message.id = Some(value.to_owned()),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // A comment keeps the connection alive; `retry` is our own business.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let text =
            ": hello\r\n\nevent: claim_granted\nid: 1-2\ndata: {\"a\":\ndata: 1}\n\nid: 1-3\ndata: é\n\n";
        let whole = Parser::default().feed(text.as_bytes()).unwrap();
        assert_eq!(whole.len(), 2);
        assert_eq!((whole[0].event.as_str(), whole[0].data.as_str()), ("claim_granted", "{\"a\":\n1}"));
        assert_eq!((whole[1].id.as_deref(), whole[1].data.as_str()), (Some("1-3"), "é"));
        for cut in 0..text.len() {
            let mut parser = Parser::default();
            let mut messages = parser.feed(&text.as_bytes()[..cut]).unwrap();
            messages.extend(parser.feed(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(messages, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = Parser::default();
        assert!((0..20).any(|_| parser.feed(&vec![b'x'; 100_000]).is_err()));
    }
}
