//! What a server says over a socket, as the benchmark reads it by hand: frame after frame, each where another reader
//! finds it.

use std::io::Cursor;

use tenure_load::wire::frame;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;

use crate::Target;

/// A new connection for each input.
#[derive(Debug)]
pub struct Wire;

impl Target for Wire {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        loop {
            let read = frame(rest);
            if read.is_some_and(|(from, to)| rest.get(from..to).is_none()) {
                return Err(format!("{read:?} is beyond {} bytes", rest.len()));
            }
            let mut cursor = Cursor::new(rest);
            // A server masks nothing; what such a frame would be matters to nobody.
            let other = match FrameHeader::parse(&mut cursor) {
                Ok(Some((header, length))) if header.mask.is_none() => place(&cursor, length),
                Ok(None) => None,
                Ok(Some(_)) | Err(_) => return Ok(()),
            };
            if read != other {
                return Err(format!("{read:?} is {other:?}"));
            }
            let Some((_, to)) = read else { return Ok(()) };
            rest = &rest[to..];
        }
    }
}

/// Where the payload begins and ends, if all of it is there.
fn place(cursor: &Cursor<&[u8]>, length: u64) -> Option<(usize, usize)> {
    let from = usize::try_from(cursor.position()).ok()?;
    let to = from.checked_add(usize::try_from(length).ok()?)?;
    (to <= cursor.get_ref().len()).then_some((from, to))
}
