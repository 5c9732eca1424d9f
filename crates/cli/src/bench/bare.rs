//! The floor: a journal that writes records of the same size in batches of the same size, and decides
//! nothing. No engine can be faster than this on this disk.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Result;

/// The bare loop's file: the size of a journal segment.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Writes batches of `batch` records of `record_bytes` for a time; records a second.
pub(crate) fn journal(folder: &Path, record_bytes: usize, batch: usize, time: Duration) -> Result<f64> {
    let path = folder.join("bare.journal");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
    let zeros = vec![0; 1024 * 1024];
    for offset in (0..FILE_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, offset)?;
    }
    file.sync_all()?;
    let record = vec![0xA5; record_bytes];
    let mut bytes = Vec::with_capacity(batch * record_bytes + 16);
    let (mut offset, mut records) = (0, 0_u64);
    let started = Instant::now();
    while started.elapsed() < time {
        bytes.clear();
        bytes.extend_from_slice(&[0; 16]);
        for _ in 0..batch {
            bytes.extend_from_slice(&record);
        }
        let sum = crc32c::crc32c(&bytes[16..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes[8..16].copy_from_slice(&records.to_le_bytes());
        if offset + bytes.len() as u64 > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&bytes, offset)?;
        file.sync_data()?;
        offset += bytes.len() as u64;
        records += batch as u64;
    }
    let rate = super::load::as_f64(records) / started.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
