//! Reading the journal back.
//!
//! At most one record is ever unconfirmed, so after a crash at most the very last one is torn, and that
//! one was never answered. A bad record with anything of this journal after it was damaged later: that
//! is corruption, it is named, and nothing starts over it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::format::{BadHeader, FORMAT, Head, Header, PAGE_BYTES, segment_id, segment_name};
use super::{FullSegment, GONE_NAME, Journal, NEXT_NAME, Segment, create, io_error, with_segments};
use crate::Error;
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::options::{Faults, Options};
use crate::limits::SEGMENT_BYTES_MAX;

/// Takes a batch's number and payload.
pub(crate) type Replay<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 'a;

/// Opens the journal and hands every batch after `folded_through` to `replay`, in order.
pub(crate) fn open<D: Disk>(
    disk: Arc<D>,
    dir: &Path,
    store: u64,
    folded_through: u64,
    options: &Options,
    replay: &mut Replay<'_>,
) -> Result<Journal<D>, Error> {
    clean(&*disk, dir, options.faults())?;
    let Some(read) = read_all(&*disk, dir, store, folded_through, options.faults(), replay)? else {
        return create(disk, dir, store, 1, options);
    };
    let ReadJournal { headers, newest, bytes, tail } = read;
    for dropped in &headers[newest + 1..] {
        // Only the planted bug comes here.
        let path = dir.join(segment_name(dropped.id));
        disk.remove(&path).map_err(|source| io_error(&path, "remove", source))?;
    }
    let full = headers.windows(2).take(newest).map(|pair| FullSegment {
        id: pair[0].id,
        last: pair[1].first - 1,
        bytes: pair[0].bytes,
    });
    let full: VecDeque<_> = full.collect();
    let current = settle_tail(&*disk, dir, headers[newest], &bytes, &tail)?;
    with_segments(disk, dir, store, options, full, current, tail.next)
}

/// Reads the journal as a start would, and changes nothing. Answers the newest batch.
pub(crate) fn verify<D: Disk>(
    disk: &D,
    dir: &Path,
    store: u64,
    folded_through: u64,
    replay: &mut Replay<'_>,
) -> Result<u64, Error> {
    let read = read_all(disk, dir, store, folded_through, Faults::default(), replay)?;
    Ok(read.map_or(0, |read| read.tail.next - 1))
}

/// The highest number that any record of the newest segment has, whole or not.
pub(crate) fn newest_batch<D: Disk>(disk: &D, dir: &Path, store: u64) -> Result<u64, Error> {
    let headers = read_headers(disk, dir, store)?;
    let Some(header) = headers.last() else { return Ok(0) };
    let mut bytes = Vec::new();
    read_segment(disk, &dir.join(segment_name(header.id)), header, &mut bytes)?;
    let pages = bytes.chunks_exact(PAGE_BYTES).skip(1);
    let numbers = pages.filter_map(|page| Head::read(page, header.seed())).map(|head| head.number);
    Ok(numbers.max().unwrap_or(header.first - 1))
}

/// The journal as it is on disk.
struct ReadJournal {
    headers: Vec<Header>,
    /// The index of the segment that is written to.
    newest: usize,
    /// Its bytes.
    bytes: Vec<u8>,
    tail: Scan,
}

/// Replays all segments that are needed. `None` where there is no journal yet.
fn read_all<D: Disk>(
    disk: &D,
    dir: &Path,
    store: u64,
    folded_through: u64,
    faults: Faults,
    replay: &mut Replay<'_>,
) -> Result<Option<ReadJournal>, Error> {
    let headers = read_headers(disk, dir, store)?;
    if headers.is_empty() {
        if folded_through > 0 {
            let detail = format!("it has no segments, but the archive has {folded_through} batches");
            return Err(corrupt(dir, detail));
        }
        return Ok(None);
    }
    // Segments before this one are folded; they only wait to be used again.
    let Some(start) = headers.iter().rposition(|header| header.first <= folded_through + 1) else {
        let first = headers[0].first;
        let detail =
            format!("it begins with batch {first}, but the archive ends with batch {folded_through}");
        return Err(corrupt(dir, detail));
    };
    let mut bytes = Vec::new();
    let mut tail = Scan { end: PAGE_BYTES, next: headers[start].first, last: None };
    let mut newest = start;
    for (index, header) in headers.iter().enumerate().skip(start) {
        let path = dir.join(segment_name(header.id));
        read_segment(disk, &path, header, &mut bytes)?;
        tail = scan_segment(&path, header, &bytes, faults, &mut |number, payload| {
            if number > folded_through { replay(number, payload) } else { Ok(()) }
        })?;
        newest = index;
        match headers.get(index + 1) {
            Some(following) if following.id != header.id + 1 => {
                return Err(corrupt(dir, format!("segment {} is missing", header.id + 1)));
            }
            Some(following) if following.first != tail.next => {
                if faults.stop_at_first_bad_record_silently {
                    break;
                }
                return Err(hole(&path, &tail, following.first));
            }
            Some(_) => {}
            None => check_tail(&path, header, &bytes, &tail, faults)?,
        }
    }
    if tail.next <= folded_through {
        let last = tail.next - 1;
        let detail = format!("it ends with batch {last}, but the archive has batch {folded_through}");
        return Err(corrupt(dir, detail));
    }
    Ok(Some(ReadJournal { headers, newest, bytes, tail }))
}

/// How far a segment's records go.
#[derive(Clone, Copy, Debug)]
struct Scan {
    /// Where the next record would be.
    end: usize,
    /// Its number.
    next: u64,
    /// Where the last record is.
    last: Option<usize>,
}

/// Hands a segment's good records to `replay`, up to its end or to the first bad one.
fn scan_segment(
    path: &Path,
    header: &Header,
    bytes: &[u8],
    faults: Faults,
    replay: &mut Replay<'_>,
) -> Result<Scan, Error> {
    let seed = header.seed();
    let mut scan = Scan { end: PAGE_BYTES, next: header.first, last: None };
    while scan.end < bytes.len() {
        let record = &bytes[scan.end..];
        let head = if faults.ignore_crc {
            Some(Head::read_unchecked(record)).filter(|head| head.record_bytes() <= record.len())
        } else {
            Head::read(record, seed)
        };
        let Some(head) = head.filter(|head| head.number == scan.next) else { break };
        let payload = head.payload(record);
        let unchecked =
            || faults.ignore_crc.then(|| super::HEAD_BYTES..super::HEAD_BYTES + head.length as usize);
        let Some(payload) = payload.or_else(unchecked) else { break };
        replay(head.number, &record[payload]).map_err(|error| name_file(error, path, scan.end))?;
        scan.last = Some(scan.end);
        scan.end += head.record_bytes();
        scan.next += 1;
    }
    Ok(scan)
}

/// The header of a segment, checked against its name, its store and its length.
pub(crate) fn read_header<D: Disk>(disk: &D, path: &Path, id: u64, store: u64) -> Result<Header, Error> {
    let file = disk.open_to_read(path).map_err(|source| io_error(path, "open", source))?;
    let mut page = vec![0; PAGE_BYTES];
    let filled = file.read_at(0, &mut page).map_err(|source| io_error(path, "read", source))?;
    let header = Header::read(&page[..filled]).map_err(|bad| match bad {
        BadHeader::Damaged => corrupt(path, "its header (offset 0) does not verify".to_owned()),
        BadHeader::Newer(found) => Error::Newer { path: path.to_owned(), found, known: FORMAT },
    })?;
    if header.id != id {
        return Err(corrupt(path, format!("its header says segment {}", header.id)));
    }
    if header.store != store {
        return Err(corrupt(path, "it is of another data folder".to_owned()));
    }
    let length = file.len().map_err(|source| io_error(path, "read", source))?;
    if length != header.bytes || length > SEGMENT_BYTES_MAX {
        return Err(corrupt(path, format!("it is {length} bytes long instead of {}", header.bytes)));
    }
    Ok(header)
}

/// All segments' headers, oldest first.
fn read_headers<D: Disk>(disk: &D, dir: &Path, store: u64) -> Result<Vec<Header>, Error> {
    let names = disk.list(dir).map_err(|source| io_error(dir, "list", source))?;
    let mut ids: Vec<u64> = names.iter().filter_map(|name| segment_id(name)).collect();
    ids.sort_unstable();
    ids.into_iter().map(|id| read_header(disk, &dir.join(segment_name(id)), id, store)).collect()
}

/// Removes a segment that was being made or removed, and makes sure of the names that are there: the process
/// that gave them may have died before it could.
fn clean<D: Disk>(disk: &D, dir: &Path, faults: Faults) -> Result<(), Error> {
    let names = disk.list(dir).map_err(|source| io_error(dir, "list", source))?;
    for name in names.iter().filter(|name| [NEXT_NAME, GONE_NAME].contains(&name.as_str())) {
        let path = dir.join(name);
        disk.remove(&path).map_err(|source| io_error(&path, "remove", source))?;
    }
    if faults.skip_dir_sync {
        return Ok(());
    }
    disk.sync_dir(dir).map_err(|source| Error::SyncFailed { path: dir.to_owned(), source })
}

fn read_segment<D: Disk>(disk: &D, path: &Path, header: &Header, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let file = disk.open_to_read(path).map_err(|source| io_error(path, "open", source))?;
    bytes.resize(usize::try_from(header.bytes).expect("a segment fits in memory"), 0);
    let filled = file.read_at(0, bytes).map_err(|source| io_error(path, "read", source))?;
    if filled < bytes.len() {
        return Err(corrupt(path, format!("it ends at {filled} instead of {}", bytes.len())));
    }
    Ok(())
}

/// Nothing of this segment's life follows its end: else the bad record there is no torn tail.
fn check_tail(path: &Path, header: &Header, bytes: &[u8], tail: &Scan, faults: Faults) -> Result<(), Error> {
    if faults.stop_at_first_bad_record_silently || faults.ignore_crc {
        return Ok(());
    }
    let seed = header.seed();
    // A good head alone is enough: it shows that a record was begun there, so the one at the end was
    // confirmed.
    let later = bytes.get(tail.end + PAGE_BYTES..).unwrap_or_default().chunks_exact(PAGE_BYTES);
    let found = later.filter_map(|page| Head::read(page, seed)).find(|head| head.number >= tail.next);
    found.map_or(Ok(()), |head| Err(hole(path, tail, head.number)))
}

/// Makes the journal's end safe to build on, and answers the segment that is written to next.
///
/// Two things are not known about the end. The last good record may only be in the system's memory:
/// its writer died before its sync, or its sync failed and the system then forgot that the pages were
/// never written. So it is written again before anybody hears of it. And a torn record behind it may
/// be on disk in part; were its missing page to be supplied by a later, equal one, it would be whole
/// and come back from the dead. So its head is wiped.
fn settle_tail<D: Disk>(
    disk: &D,
    dir: &Path,
    header: Header,
    bytes: &[u8],
    tail: &Scan,
) -> Result<Segment<D::File>, Error> {
    let path = dir.join(segment_name(header.id));
    let mut file = disk.open(&path).map_err(|source| io_error(&path, "open", source))?;
    if let Some(last) = tail.last {
        let record = &bytes[last..tail.end];
        file.write_at(last as u64, record).map_err(|source| io_error(&path, "write", source))?;
    }
    if bytes.get(tail.end..tail.end + PAGE_BYTES).is_some_and(|page| page.iter().any(|byte| *byte != 0)) {
        let zeros = [0; PAGE_BYTES];
        file.write_at(tail.end as u64, &zeros).map_err(|source| io_error(&path, "write", source))?;
    }
    file.sync_data().map_err(|source| Error::SyncFailed { path: path.clone(), source })?;
    Ok(Segment { header, seed: header.seed(), file, path, end: tail.end as u64 })
}

fn hole(path: &Path, tail: &Scan, found: u64) -> Error {
    let detail =
        format!("batch {} at offset {} does not verify, but batch {found} follows it", tail.next, tail.end);
    corrupt(path, detail)
}

fn corrupt(path: &Path, detail: String) -> Error {
    Error::Corrupt { path: path.to_owned(), detail }
}

/// Says where in the journal a batch is that could not be replayed.
fn name_file(error: Error, path: &Path, offset: usize) -> Error {
    match error {
        Error::Corrupt { detail, .. } => corrupt(path, format!("at offset {offset}: {detail}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::disk::RealDisk;

    /// A backup looks into a journal that is in use: a segment may be used again between its listing and
    /// its reading, and a file made in its place would keep the next start from going over it.
    #[test]
    fn looking_for_a_segment_that_is_gone_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(segment_name(7));
        let header = read_header(&RealDisk, &path, 7, 1);
        assert!(matches!(header, Err(Error::Io { .. })), "{header:?}");
        assert!(!path.exists());
    }
}
