//! Streams that are right.

/// A whole text message, masked with zeros, so that what is spoiled of it is spoiled of its text.
pub(super) fn text(text: &str) -> Vec<u8> {
    frame(0x81, text.as_bytes())
}

/// A client's frame with the shortest length that holds it, masked with zeros.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("short");
    match u8::try_from(length) {
        Ok(length) if length < 126 => with_length(first, &[length], [0; 4], payload),
        _ => with_length(first, &[&[126][..], &length.to_be_bytes()].concat(), [0; 4], payload),
    }
}

fn with_length(first: u8, length: &[u8], mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let (short, long) = length.split_first().expect("a length");
    [first, short | 0x80].into_iter().chain(long.iter().copied()).chain(mask).chain(masked).collect()
}

/// One of each thing that a client may send.
pub(super) fn streams() -> Vec<Vec<u8>> {
    const PING: &str = r#"{"type":"ping"}"#;
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let acquire = r#"{"id":1,"command":{"op":"acquire","collection":"lock/a","items":["b"]}}"#;
    let long = r#"{"id":"a-1","command":{"op":"put_item","collection":"lock/quiet","item":"i","data":{"n":[1,2,3],"t":"é"}},"idempotency_key":"k-1"}"#;
    let release = r#"{"type":"command","id":2,"command":{"op":"release","claim":"lock~a~2"}}"#;
    vec![
        text(PING),
        [text(acquire), text(release), text(PING)].concat(),
        // A length of 16 bits, and what needs it.
        [text(long), text(acquire)].concat(),
        // A length of 64 bits.
        with_length(
            0x81,
            &[&[127][..], &(acquire.len() as u64).to_be_bytes()].concat(),
            [0; 4],
            acquire.as_bytes(),
        ),
        with_length(0x81, &[u8::try_from(release.len()).expect("short")], MASK, release.as_bytes()),
        // In pieces, with a sign of life between them.
        [frame(0x01, b"{\"type\":"), frame(0x89, b"there?"), frame(0x00, b"\"pi"), frame(0x80, b"ng\"}")]
            .concat(),
        [frame(0x89, b""), frame(0x8a, b"yes"), text(PING), frame(0x88, b"\x03\xe8bye")].concat(),
        [text(acquire), frame(0x82, b"\x00\x01\x02")].concat(),
        [text("{\"type\":\"é\"}"), text(""), text("[]"), text("{\"id\":1}")].concat(),
    ]
}
