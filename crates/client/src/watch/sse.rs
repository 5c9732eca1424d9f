//! Server-sent events out of bytes, however they are cut. A snapshot's data is skipped as it comes: it is one line
//! with the whole collection on it, and whoever wants the rows reads them.

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

/// The event whose data is not kept.
const SKIPPED: &str = "snapshot";

impl Parser {
    /// The messages that these bytes complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, &'static str> {
        let mut messages = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line).map_err(|_| "the stream is not UTF-8")?;
            messages.extend(self.take(line));
        }
        self.add(rest);
        if self.line.len() > LINE_BYTES_MAX || self.message.data.len() > LINE_BYTES_MAX {
            return Err("a line of the stream does not end");
        }
        Ok(messages)
    }

    /// Takes more of a line, or passes over it.
    fn add(&mut self, bytes: &[u8]) {
        const DATA: &[u8] = b"data:";
        if self.message.event != SKIPPED {
            return self.line.extend_from_slice(bytes);
        }
        // As much as tells which field it is.
        let head = DATA.len().saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..head]);
        if self.line != DATA {
            self.line.extend_from_slice(&bytes[head..]);
        }
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
    fn a_snapshot_is_passed_over_however_large_it_is_and_however_it_is_cut() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"id: 1-7\nevent: snapshot\nda").unwrap(), []);
        assert_eq!(parser.feed(b"ta: {\"items\":[").unwrap(), []);
        for _ in 0..40 {
            assert_eq!(parser.feed(&vec![b'x'; 100_000]).unwrap(), []);
            assert!(parser.line.len() < 10);
        }
        let rest = parser.feed(b"]}\n\nid: 1-8\ndata: {}\n\n").unwrap();
        assert_eq!((rest[0].event.as_str(), rest[0].data.as_str()), ("snapshot", ""));
        assert_eq!(rest[0].id.as_deref(), Some("1-7"));
        assert_eq!((rest[1].id.as_deref(), rest[1].data.as_str()), (Some("1-8"), "{}"));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = Parser::default();
        assert!((0..20).any(|_| parser.feed(&vec![b'x'; 100_000]).is_err()));
    }

    /// E9: nothing comes of a spoiled stream that was not in it, and it is the same however it is cut.
    #[test]
    fn e9_a_spoiled_stream_is_the_same_however_it_is_cut() {
        let corpus = [
            ": hello\n\nid: 1-2\nevent: claim_granted\ndata: {\"seq\":2}\n\n",
            "id: 1-7\nevent: snapshot\ndata: {\"items\":[],\"claims\":[]}\n\nid: 1-8\ndata: {}\n\n",
            "event: resync\r\ndata: {\"epoch\":2,\r\ndata: \"last\":9}\r\n\r\n",
            ": \u{e9}\n\nretry: 5\ndata\n\n",
        ];
        let judged = tenure_spoil::spoiled(&corpus.map(|text| text.as_bytes().to_vec()), |bytes| {
            let whole = Parser::default().feed(bytes);
            for piece in [1, 5, 64] {
                let mut parser = Parser::default();
                let pieces: Result<Vec<_>, _> = bytes.chunks(piece).map(|piece| parser.feed(piece)).collect();
                if whole != pieces.map(|pieces| pieces.into_iter().flatten().collect::<Vec<_>>()) {
                    return Err(format!("in pieces of {piece} it is another than {whole:?}"));
                }
            }
            let Ok(messages) = whole else { return Ok(false) };
            let length = |message: &Message| {
                message.event.len() + message.data.len() + message.id.as_ref().map_or(0, String::len)
            };
            if messages.iter().map(length).sum::<usize>() > bytes.len() {
                return Err(format!("more comes of it than was in it: {messages:?}"));
            }
            Ok(true)
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
