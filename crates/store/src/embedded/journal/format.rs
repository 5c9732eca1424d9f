//! The bytes of a segment.
//!
//! ```text
//! page 0    magic ─ format ─ store ─ segment id ─ salt ─ first batch ─ segment bytes ─ CRC
//! page 1..  record: number ─ length ─ CRC of the body ─ CRC of salt and head │ body, zeros to the page's end
//! page k..  record …
//! ```
//!
//! Every record begins on a page of its own, so a page that holds an answered batch is never written
//! again. The head's sum is seeded with the segment's id and salt: bytes of the file's earlier lives
//! fail it, and so does anything that a client put into its data, since it cannot know the salt.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};

/// The newest form of the journal that this program knows.
pub(crate) const FORMAT: u32 = 1;
/// What a disk writes at once.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A record's own bytes before its body.
pub(crate) const HEAD_BYTES: usize = 20;

const MAGIC: [u8; 8] = *b"TENURE-J";
const SUMMED: usize = 52;

/// What page 0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which store's journal it is: a segment of another is not replayed.
    pub(crate) store: u64,
    /// 1, 2, 3 …, as in the file's name.
    pub(crate) id: u64,
    /// Another one in each life of a file.
    pub(crate) salt: u64,
    /// The number of the first batch in it.
    pub(crate) first: u64,
    /// The file's length.
    pub(crate) bytes: u64,
}

/// Why page 0 is not a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Not ours, or damaged.
    Damaged,
    /// Of a newer form.
    Newer(u32),
}

impl Header {
    /// Page 0.
    pub(crate) fn to_page(self) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        let fields = [self.store, self.id, self.salt, self.first, self.bytes];
        for (index, field) in fields.iter().enumerate() {
            page[12 + index * 8..20 + index * 8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = crc32c(&page[..SUMMED]);
        page[SUMMED..SUMMED + 4].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Reads page 0.
    pub(crate) fn read(page: &[u8]) -> Result<Self, BadHeader> {
        if page.len() < PAGE_BYTES || page[..8] != MAGIC {
            return Err(BadHeader::Damaged);
        }
        // The format comes before the sum: a newer one may be summed otherwise.
        let format = u32_at(page, 8);
        if format > FORMAT {
            return Err(BadHeader::Newer(format));
        }
        if u32_at(page, SUMMED) != crc32c(&page[..SUMMED]) {
            return Err(BadHeader::Damaged);
        }
        let field = |index: usize| u64_at(page, 12 + index * 8);
        Ok(Self { store: field(0), id: field(1), salt: field(2), first: field(3), bytes: field(4) })
    }

    /// What the sums of its records start from.
    pub(crate) fn seed(&self) -> u32 {
        crc32c_append(crc32c(&self.id.to_le_bytes()), &self.salt.to_le_bytes())
    }
}

/// What stands before a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The batch's number.
    pub(crate) number: u64,
    /// The payload's length.
    pub(crate) length: u32,
    body_sum: u32,
}

impl Head {
    /// The record's head at the start of these bytes, if there is one of this segment's life.
    pub(crate) fn read(bytes: &[u8], seed: u32) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        (u32_at(head, 16) == crc32c_append(seed, &head[..16])).then(|| Self::read_unchecked(head))
    }

    /// The same without a check.
    pub(crate) fn read_unchecked(head: &[u8]) -> Self {
        Self { number: u64_at(head, 0), length: u32_at(head, 8), body_sum: u32_at(head, 12) }
    }

    /// The record's length on disk.
    pub(crate) fn record_bytes(&self) -> usize {
        (HEAD_BYTES + self.length as usize).next_multiple_of(PAGE_BYTES)
    }

    /// Where the payload is in a record, if the record is whole.
    pub(crate) fn payload(&self, record: &[u8]) -> Option<Range<usize>> {
        let body = record.get(HEAD_BYTES..self.record_bytes())?;
        (crc32c(body) == self.body_sum).then_some(HEAD_BYTES..HEAD_BYTES + self.length as usize)
    }
}

/// Makes a record of a buffer that holds [`HEAD_BYTES`] of anything and the payload.
pub(crate) fn finish_record(record: &mut Vec<u8>, number: u64, seed: u32) {
    let length = u32::try_from(record.len() - HEAD_BYTES).expect("a segment's bound is below 4 GiB");
    record.resize(record.len().next_multiple_of(PAGE_BYTES), 0);
    let body_sum = crc32c(&record[HEAD_BYTES..]);
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..12].copy_from_slice(&length.to_le_bytes());
    record[12..16].copy_from_slice(&body_sum.to_le_bytes());
    let sum = crc32c_append(seed, &record[..16]);
    record[16..20].copy_from_slice(&sum.to_le_bytes());
}

/// A segment's file name.
pub(crate) fn segment_name(id: u64) -> String {
    format!("{id:016}.journal")
}

/// The id that a file name gives, if it is a segment's.
pub(crate) fn segment_id(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".journal")?.parse().ok()?;
    (segment_name(id) == name).then_some(id)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { store: 7, id: 3, salt: 0x1234_5678_9abc_def0, first: 40, bytes: 65_536 }
    }

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_shows() {
        let page = header().to_page();
        assert_eq!(Header::read(&page), Ok(header()));
        for bit in 0..(SUMMED + 4) * 8 {
            let mut damaged = page;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut page = header().to_page();
        page[8] = 9;
        assert_eq!(Header::read(&page), Err(BadHeader::Newer(9)));
    }

    #[test]
    fn a_record_of_another_life_of_the_file_is_none() {
        let mut record = vec![0; HEAD_BYTES];
        record.extend_from_slice(b"payload");
        finish_record(&mut record, 41, header().seed());
        let head = Head::read(&record, header().seed()).expect("its own seed reads it");
        assert_eq!(head.payload(&record).map(|range| &record[range]), Some(&b"payload"[..]));
        let later = Header { salt: 1, ..header() };
        assert_eq!(Head::read(&record, later.seed()), None);
    }

    #[test]
    fn only_exact_names_are_segments() {
        assert_eq!(segment_id(&segment_name(12)), Some(12));
        for name in ["12.journal", "next.tmp", "0000000000000012.journal.bak", "+000000000000012.journal"] {
            assert_eq!(segment_id(name), None, "{name}");
        }
    }
}
