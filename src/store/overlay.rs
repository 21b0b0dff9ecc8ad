//! A database opened without changing its file: what would be written is kept in memory.

use std::collections::HashMap;
use std::io;
use std::ops::Bound;

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend};

/// Bytes of one block that is kept in memory once it was written.
const BLOCK_BYTES: u64 = 4_096;

/// Reads `file`, and never writes it. Its locks are the file's.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Box<dyn StorageBackend>,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// What of the file still shows: it may have been cut and grown since.
    file_len: u64,
    blocks: HashMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn new(file: Box<dyn StorageBackend>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, written: Mutex::new(Written { len, file_len: len, blocks: HashMap::new() }) })
    }

    /// What is there now from `offset` on, zeros after the end of the file.
    fn fill(&self, written: &Written, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let of_file = written.file_len.saturating_sub(offset).min(out.len() as u64) as usize;
        let (of_file, beyond) = out.split_at_mut(of_file);
        beyond.fill(0);
        if !of_file.is_empty() {
            self.file.read(offset, of_file)?;
        }
        for (block, at, range) in blocks(offset, out.len()) {
            if let Some(bytes) = written.blocks.get(&block) {
                let len = range.len();
                out[range].copy_from_slice(&bytes[at..at + len]);
            }
        }
        Ok(())
    }
}

/// The blocks that `len` bytes from `offset` on touch: number, first byte in it, and which of the bytes.
fn blocks(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at;
        (start < end).then(|| {
            let block = start / BLOCK_BYTES;
            at = ((block + 1) * BLOCK_BYTES).min(end);
            (block, (start % BLOCK_BYTES) as usize, (start - offset) as usize..(at - offset) as usize)
        })
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock();
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.fill(&written, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        written.len = len;
        written.file_len = written.file_len.min(len);
        written.blocks.retain(|block, _| block * BLOCK_BYTES < len);
        if let Some(last) = written.blocks.get_mut(&(len / BLOCK_BYTES)) {
            last[(len % BLOCK_BYTES) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock();
        for (block, at, range) in blocks(offset, data.len()) {
            if !written.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK_BYTES as usize].into_boxed_slice();
                self.fill(&written, block * BLOCK_BYTES, &mut bytes)?;
                written.blocks.insert(block, bytes);
            }
            if let Some(bytes) = written.blocks.get_mut(&block) {
                bytes[at..at + range.len()].copy_from_slice(&data[range]);
            }
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;

    #[test]
    fn what_is_written_over_a_file_is_read_back_and_the_file_stays() {
        let file = InMemoryBackend::new();
        file.set_len(10_000).unwrap();
        file.write(0, &[7; 10_000]).unwrap();
        let overlay = Overlay::new(Box::new(file)).unwrap();
        let read = |at: u64, len: usize| {
            let mut out = vec![0; len];
            overlay.read(at, &mut out).map(|()| out)
        };
        overlay.write(4_090, &[1; 20]).unwrap();
        assert_eq!(read(4_088, 24).unwrap(), [&[7; 2][..], &[1; 20], &[7; 2]].concat());
        overlay.set_len(5_000).unwrap();
        assert!(read(4_999, 2).is_err());
        // What was cut off does not come back.
        overlay.set_len(9_000).unwrap();
        assert_eq!(read(4_998, 4).unwrap(), [7, 7, 0, 0]);
        overlay.write(8_999, &[3]).unwrap();
        overlay.set_len(4_100).unwrap();
        overlay.set_len(4_200).unwrap();
        assert_eq!(read(4_098, 4).unwrap(), [1, 1, 0, 0]);
        let mut below = vec![0; 10_000];
        overlay.file.read(0, &mut below).unwrap();
        assert_eq!(below, [7; 10_000]);
    }
}
