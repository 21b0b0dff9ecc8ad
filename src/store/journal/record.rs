//! The bytes of a journal, as `index-schema/store.md` draws them.

use std::io;

const MAGIC: [u8; 8] = *b"ssjrnl\0\x01";
/// Bytes of the tag by which journal and file know each other.
pub(super) const TAG_BYTES: usize = 16;
/// The header has a page of its own: a torn record can't reach it.
pub(super) const HEADER_BYTES: u64 = 4_096;
/// Checksum, length, sequence, synced.
pub(super) const RECORD_BYTES: usize = 24;
/// A change's offset and length.
const CHANGE_BYTES: usize = 12;
/// As the length of a change: the file gets its offset as length.
const SET_LEN: u32 = u32::MAX;

/// One record as it is read.
#[derive(Debug)]
pub(super) struct Record<'j> {
    pub(super) sequence: u64,
    /// Records up to this one were in the file, synced, before this was written.
    synced: u64,
    changes: &'j [u8],
}

/// What a record does to the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<'j> {
    Write { offset: u64, bytes: &'j [u8] },
    SetLen(u64),
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The records of a half, while each follows the one before it.
fn records(half: &[u8]) -> Vec<Record<'_>> {
    let mut records: Vec<Record<'_>> = Vec::new();
    let mut at = 0;
    let next = |at: usize| {
        let rest = half.get(at..)?;
        let len = u32_at(rest, 4)? as usize;
        let covered = rest.get(4..RECORD_BYTES.checked_add(len)?)?;
        (crc32fast::hash(covered) == u32_at(rest, 0)?).then_some(())?;
        Some(Record {
            sequence: u64_at(rest, 8)?,
            synced: u64_at(rest, 16)?,
            changes: covered.get(RECORD_BYTES - 4..)?,
        })
    };
    while let Some(record) = next(at) {
        if records.last().is_some_and(|last| last.sequence + 1 != record.sequence) {
            break;
        }
        at += RECORD_BYTES + record.changes.len();
        records.push(record);
    }
    records
}

/// What a record does, in order.
pub(super) fn changes<'j>(record: &Record<'j>) -> impl Iterator<Item = Change<'j>> {
    let mut rest = record.changes;
    std::iter::from_fn(move || {
        let (offset, len) = (u64_at(rest, 0)?, u32_at(rest, 8)?);
        if len == SET_LEN {
            rest = rest.get(CHANGE_BYTES..)?;
            return Some(Change::SetLen(offset));
        }
        let bytes = rest.get(CHANGE_BYTES..CHANGE_BYTES + len as usize)?;
        rest = rest.get(CHANGE_BYTES + len as usize..)?;
        Some(Change::Write { offset, bytes })
    })
}

/// What a journal says that may not be in the file: the records after the last that is known to be there.
pub(super) fn outstanding(journal: &[u8]) -> io::Result<Vec<Record<'_>>> {
    let header = journal.get(..HEADER_BYTES as usize);
    let half = header.filter(|header| header.starts_with(&MAGIC)).and_then(|header| {
        let checked = crc32fast::hash(header.get(..16 + TAG_BYTES)?) == u32_at(header, 16 + TAG_BYTES)?;
        checked.then(|| u64_at(header, 8)).flatten()
    });
    // Without a whole header it was not in use yet.
    let Some(half) = half.and_then(|half| usize::try_from(half).ok()) else { return Ok(Vec::new()) };
    let (first, second) = journal[HEADER_BYTES as usize..].split_at(half.min(journal.len() - HEADER_BYTES as usize));
    let mut halves = [records(first), records(second)];
    halves.sort_by_key(|records| records.first().map_or(0, |record| record.sequence));
    let [mut older, newer] = halves;
    let synced = older.iter().chain(&newer).map(|record| record.synced).max().unwrap_or(0);
    if let (Some(last), Some(first)) = (older.last(), newer.first())
        && last.sequence + 1 != first.sequence
    {
        if synced + 1 < first.sequence {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the journal lacks records {} to {}", last.sequence + 1, first.sequence - 1),
            ));
        }
        older.clear();
    }
    older.extend(newer);
    older.retain(|record| record.sequence > synced && !record.changes.is_empty());
    Ok(older)
}

/// The first page of a journal, as far as it is used.
pub(super) fn header(half_bytes: u64, tag: [u8; TAG_BYTES]) -> Vec<u8> {
    let mut header = Vec::from(MAGIC);
    header.extend_from_slice(&half_bytes.to_le_bytes());
    header.extend_from_slice(&tag);
    let checksum = crc32fast::hash(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}

/// The tag of a journal.
pub(super) fn tag(journal: &[u8]) -> Option<&[u8]> {
    journal.get(16..16 + TAG_BYTES)
}

/// Adds a write at `offset` to a record in the making.
pub(super) fn push_write(record: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    push(record, offset, bytes.len() as u32, bytes);
}

/// Adds a new length of the file.
pub(super) fn push_len(record: &mut Vec<u8>, len: u64) {
    push(record, len, SET_LEN, &[]);
}

fn push(record: &mut Vec<u8>, offset: u64, len: u32, bytes: &[u8]) {
    record.resize(record.len().max(RECORD_BYTES), 0);
    record.extend_from_slice(&offset.to_le_bytes());
    record.extend_from_slice(&len.to_le_bytes());
    record.extend_from_slice(bytes);
}

/// Fills in the head of a record, whose changes are all there.
pub(super) fn complete(record: &mut [u8], sequence: u64, synced: u64) {
    let changes = (record.len() - RECORD_BYTES) as u32;
    record[4..8].copy_from_slice(&changes.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[16..RECORD_BYTES].copy_from_slice(&synced.to_le_bytes());
    let checksum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64, synced: u64, page: u8) -> Vec<u8> {
        let mut record = vec![0; RECORD_BYTES];
        if page > 0 {
            push_write(&mut record, u64::from(page) * 100, &[page; 3]);
        }
        complete(&mut record, sequence, synced);
        record
    }

    /// A journal with halves of 1,000 bytes.
    fn journal(first: &[Vec<u8>], second: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = header(1_000, [7; TAG_BYTES]);
        bytes.resize(HEADER_BYTES as usize, 0);
        for half in [first, second] {
            let end = bytes.len() + 1_000;
            bytes.extend(half.iter().flatten());
            bytes.resize(end, 0);
        }
        bytes
    }

    fn sequences(journal: &[u8]) -> Vec<u64> {
        outstanding(journal).unwrap().iter().map(|record| record.sequence).collect()
    }

    #[test]
    fn records_are_read_in_order_whichever_half_is_older() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|n| record(n, 0, n as u8));
        assert_eq!(sequences(&journal(&[a.clone(), b.clone()], std::slice::from_ref(&c))), [1, 2, 3]);
        assert_eq!(sequences(&journal(&[c, d], &[a, b])), [1, 2, 3, 4]);
        assert_eq!(sequences(&journal(&[], &[])), [0; 0]);
        assert_eq!(sequences(b"ssjr"), [0; 0], "one in the making");
    }

    #[test]
    fn what_is_in_the_file_is_not_written_again() {
        let records = [record(1, 0, 1), record(2, 0, 2), record(3, 2, 3)];
        assert_eq!(sequences(&journal(&records, &[])), [3]);
        // The last says that all before it is there.
        let records = [record(1, 0, 1), record(2, 0, 2), record(3, 2, 0)];
        assert_eq!(sequences(&journal(&records, &[])), [0; 0]);
    }

    #[test]
    fn a_half_ends_with_its_last_whole_record() {
        let mut torn = record(3, 0, 3);
        let last = torn.len() - 1;
        torn[last] ^= 1;
        assert_eq!(sequences(&journal(&[record(1, 0, 1), record(2, 0, 2), torn], &[])), [1, 2]);
        // Written over the older ones, of which some are still there.
        assert_eq!(
            sequences(&journal(&[record(5, 2, 5), record(2, 0, 2)], &[record(3, 0, 3), record(4, 0, 4)])),
            [3, 4, 5]
        );
    }

    #[test]
    fn records_that_are_missing_are_an_error_and_not_forgotten() {
        let missing = journal(&[record(1, 0, 1)], &[record(4, 0, 4)]);
        let error = outstanding(&missing).unwrap_err();
        assert!(error.to_string().contains("lacks records 2 to 3"), "{error}");
        // Unless they are in the file.
        assert_eq!(sequences(&journal(&[record(1, 0, 1)], &[record(4, 3, 4)])), [4]);
    }

    #[test]
    fn changes_are_read_as_they_were_noted() {
        let mut bytes = Vec::new();
        push_write(&mut bytes, 900, &[9; 3]);
        push_len(&mut bytes, 4_096);
        push_write(&mut bytes, 0, &[]);
        complete(&mut bytes, 1, 0);
        let read = records(&bytes);
        let changes: Vec<Change<'_>> = changes(&read[0]).collect();
        let written = |at: u64, bytes: &'static [u8]| Change::Write { offset: at, bytes };
        assert_eq!(changes, [written(900, &[9; 3]), Change::SetLen(4_096), written(0, &[])]);
    }
}
