//! Frames by the letter of RFC 6455, both ways. The server reads by a library; this reads without it.

use serde_json::Value;
use tenure_server::limits::SOCKET_MESSAGE_BYTES_MAX;

const BROKEN: u16 = 1002;
const BINARY: u16 = 1003;
/// Stands for a farewell without one.
const NO_CODE: u16 = 1005;
const NOT_TEXT: u16 = 1007;
const TOO_LARGE: u16 = 1009;

/// What a client's stream says.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Messages that are whole, before anything is wrong.
    pub(super) messages: Vec<String>,
    pub(super) end: End,
}

/// How a client's stream ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// It just does.
    #[default]
    Open,
    /// It says farewell.
    Left,
    /// A whole frame breaks rules: the codes for them.
    Broken(Vec<u16>),
    /// A frame that never ends breaks rules already, and whoever waits for its end need not see it.
    Cut(Vec<u16>),
}

/// A frame's head.
#[derive(Clone, Copy)]
struct Head {
    is_final: bool,
    has_reserved: bool,
    opcode: u8,
    is_masked: bool,
    length: u64,
}

/// A frame's head, its payload if that is whole, and what comes after it.
type Next<'a> = (Head, Option<Vec<u8>>, &'a [u8]);

/// The next frame and what comes after it; no payload while that is not whole, and nothing while not even its head is.
fn frame(bytes: &[u8]) -> Option<Next<'_>> {
    let (&[first, second], mut rest) = bytes.split_first_chunk()?;
    let length = match second & 0x7f {
        126 => {
            let (length, more) = rest.split_first_chunk()?;
            rest = more;
            u64::from(u16::from_be_bytes(*length))
        }
        127 => {
            let (length, more) = rest.split_first_chunk()?;
            rest = more;
            u64::from_be_bytes(*length)
        }
        short => u64::from(short),
    };
    let is_masked = second & 0x80 != 0;
    let mut mask = [0; 4];
    if is_masked {
        let (given, more) = rest.split_first_chunk()?;
        (mask, rest) = (*given, more);
    }
    let whole = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let payload = whole.map(|(payload, more)| {
        rest = more;
        payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
    });
    let (is_final, has_reserved, opcode) = (first & 0x80 != 0, first & 0x70 != 0, first & 0x0f);
    Some((Head { is_final, has_reserved, opcode, is_masked, length }, payload, rest))
}

/// What a client has sent.
pub(super) fn sent(mut bytes: &[u8]) -> Sent {
    let mut sent = Sent::default();
    // A message that has begun, and whether it is text.
    let mut begun: Option<(Vec<u8>, bool)> = None;
    while let Some((head, payload, rest)) = frame(bytes) {
        bytes = rest;
        let mut codes = wrong(head, begun.as_ref());
        let Some(payload) = payload else {
            if !codes.is_empty() {
                sent.end = End::Cut(codes);
            }
            return sent;
        };
        if codes.is_empty() && head.opcode == 8 {
            match farewell(&payload) {
                None => sent.end = End::Left,
                Some(code) => sent.end = End::Broken(vec![code]),
            }
            return sent;
        }
        if codes.is_empty() && head.opcode < 8 {
            let (mut message, is_text) = begun.take().unwrap_or((Vec::new(), head.opcode == 1));
            message.extend(payload);
            codes = wrong_so_far(&message, is_text, head.is_final);
            if codes.is_empty() && head.is_final {
                sent.messages.push(String::from_utf8_lossy(&message).into_owned());
            } else {
                begun = Some((message, is_text));
            }
        }
        if !codes.is_empty() {
            sent.end = End::Broken(codes);
            return sent;
        }
    }
    sent
}

/// The rules that a frame breaks by itself and in its place.
fn wrong(head: Head, begun: Option<&(Vec<u8>, bool)>) -> Vec<u16> {
    let is_control = head.opcode >= 8;
    let so_far = if is_control { 0 } else { begun.map_or(0, |(message, _)| message.len() as u64) };
    let is_too_large = head.length.saturating_add(so_far) > SOCKET_MESSAGE_BYTES_MAX as u64;
    let is_broken = !head.is_masked || is_misformed(head, begun.is_some()) || is_control && head.length > 125;
    let rules = [(is_broken, BROKEN), (is_too_large, TOO_LARGE)];
    rules.into_iter().filter(|(is, _)| *is).map(|(_, code)| code).collect()
}

/// No frame of either side may be like this.
fn is_misformed(head: Head, has_begun: bool) -> bool {
    let is_known = matches!(head.opcode, 0..=2 | 8..=10);
    let is_control = head.opcode >= 8;
    let is_misplaced = !is_control && (head.opcode == 0) != has_begun;
    !is_known || is_misplaced || head.has_reserved || is_control && !head.is_final
}

/// The rules that a message breaks, whole or so far.
fn wrong_so_far(message: &[u8], is_text: bool, is_whole: bool) -> Vec<u16> {
    let is_wrong_text = match std::str::from_utf8(message) {
        Ok(_) => false,
        // A letter may go on in the next frame.
        Err(error) => is_whole || error.error_len().is_some(),
    };
    match (is_text, is_whole) {
        (true, _) if is_wrong_text => vec![NOT_TEXT],
        (false, true) => vec![BINARY],
        _ => Vec::new(),
    }
}

/// What is wrong with a farewell.
fn farewell(payload: &[u8]) -> Option<u16> {
    match payload {
        [] => None,
        [_] => Some(BROKEN),
        [_, _, reason @ ..] => std::str::from_utf8(reason).is_err().then_some(NOT_TEXT),
    }
}

/// What the server says.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) texts: Vec<Value>,
    /// The code of its last words.
    pub(super) close: Option<u16>,
    /// Nothing is half told.
    pub(super) is_whole: bool,
}

/// What the server has said so far. A server's frame that breaks a rule is a broken promise.
pub(super) fn told(mut bytes: &[u8]) -> Result<Told, String> {
    let mut told = Told::default();
    let mut begun: Option<Vec<u8>> = None;
    while let Some((head, payload, rest)) = frame(bytes) {
        if told.close.is_some() {
            return Err("it goes on after its farewell".to_owned());
        }
        // It masks nothing, says nothing that is no text, and a snapshot may be large.
        if head.is_masked || head.opcode == 2 || is_misformed(head, begun.is_some()) {
            return Err(format!("the server's own frame {} breaks rules", head.opcode));
        }
        let Some(payload) = payload else { break };
        bytes = rest;
        match head.opcode {
            8 => told.close = Some(payload.first_chunk().map_or(NO_CODE, |code| u16::from_be_bytes(*code))),
            9 | 10 => {}
            _ => {
                let mut message = begun.take().unwrap_or_default();
                message.extend(payload);
                if head.is_final {
                    told.texts.push(serde_json::from_slice(&message).map_err(crate::served::told)?);
                } else {
                    begun = Some(message);
                }
            }
        }
    }
    told.is_whole = bytes.is_empty() && begun.is_none();
    Ok(told)
}

impl Told {
    /// Answers to messages, and nothing that comes by itself.
    pub(super) fn answers(&self) -> usize {
        let is_answer = |text: &&Value| matches!(text["type"].as_str(), Some("reply" | "error" | "pong"));
        self.texts.iter().filter(is_answer).count()
    }

    /// Each is what the server's messages are, and none is a failure of its own.
    pub(super) fn check(&self) -> Result<(), String> {
        for text in &self.texts {
            let is_right = match text["type"].as_str() {
                Some("reply") => text.get("id").is_some() && is_answer(&text["status"]),
                Some("error") => is_answer(&text["status"]) && text["body"]["code"].is_string(),
                Some("snapshot" | "event" | "pong") => true,
                _ => false,
            };
            if !is_right {
                return Err(format!("it says {text}"));
            }
        }
        Ok(())
    }
}

fn is_answer(status: &Value) -> bool {
    status.as_u64().is_some_and(|status| (200..500).contains(&status))
}
