//! The transcripts' file as redb uses it, watched: any failure is remembered, and what a failed sync left in doubt is
//! written again before the file is used again.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::journal::{Journal, JournalOptions, JournalPlace, replay};
use super::overlay::Overlay;
use crate::files::OpenedFile;

/// What is known of the health of one store's file. Outlives the handles on it.
#[derive(Debug, Default)]
pub struct FileHealth {
    failed: AtomicBool,
    /// Ranges written before a sync that failed. The system may show them from memory, take them for written, and
    /// lose them with the next power failure: a later sync that succeeds says nothing of them.
    doubtful: Mutex<Vec<Written>>,
}

impl FileHealth {
    /// Whether an operation on the file has failed. The database refuses all work from then on.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Notes a failure that the file itself did not see.
    pub fn note_failure(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The file is about to be opened anew.
    pub(super) fn start_over(&self) {
        self.failed.store(false, Ordering::Release);
    }
}

#[derive(Debug, Clone, Copy)]
struct Written {
    offset: u64,
    len: u64,
}

/// How many bytes are written again at a time.
const REWRITE_BYTES: u64 = 1024 * 1024;

/// One file as the disk has it. Outlives the database's handle for as long as somebody brings it up to date.
#[derive(Debug)]
pub(super) struct MainFile {
    file: Box<dyn StorageBackend>,
    health: Arc<FileHealth>,
    unsynced: Mutex<Vec<Written>>,
    /// Whether this handle has still to write again what is in doubt. It may do so once redb has locked the file.
    doubts: AtomicBool,
}

/// A file as redb wants it.
pub(super) fn storage(file: OpenedFile) -> io::Result<Box<dyn StorageBackend>> {
    Ok(match file {
        OpenedFile::System(file) => Box::new(FileBackend::new(file).map_err(io::Error::other)?),
        #[cfg(feature = "__internal_faults")]
        OpenedFile::StandIn(file) => Box::new(stand_in::StandIn(file)),
    })
}

impl MainFile {
    pub(super) fn has_failed(&self) -> bool {
        self.health.has_failed()
    }

    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.health.note_failure();
        }
        result
    }

    /// Writes doubtful ranges again, as they are read now, and syncs them.
    fn settle_doubts(&self) -> io::Result<()> {
        if !self.doubts.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut doubtful = self.health.doubtful.lock();
        let len = self.file.len()?;
        for range in doubtful.iter() {
            let end = (range.offset + range.len).min(len);
            let mut at = range.offset;
            while at < end {
                let mut bytes = vec![0; (end - at).min(REWRITE_BYTES) as usize];
                self.file.read(at, &mut bytes)?;
                self.file.write(at, &bytes)?;
                at += bytes.len() as u64;
            }
        }
        self.file.sync_data()?;
        doubtful.clear();
        self.doubts.store(false, Ordering::Release);
        Ok(())
    }

    /// Writes where the database doesn't.
    pub(super) fn write_beyond(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.watch(self.file.write(offset, bytes))?;
        self.unsynced.lock().push(Written { offset, len: bytes.len() as u64 });
        Ok(())
    }

    /// Brings what was written to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        // Taken before: what is written while the sync runs may not be part of it.
        let written = std::mem::take(&mut *self.unsynced.lock());
        let synced = self.file.sync_data();
        if synced.is_err() {
            self.health.doubtful.lock().extend(written);
        }
        self.watch(synced)
    }
}

/// redb's way to one file.
#[derive(Debug)]
pub(super) struct Backend {
    main: Arc<MainFile>,
    journal: Option<Journal>,
    /// A journal that was left behind is brought to the file before it is used. `true`: it is removed then.
    left_behind: Mutex<Option<(JournalPlace, bool)>>,
    is_ready: AtomicBool,
}

impl Backend {
    /// A file of its own, that has no journal.
    pub(super) fn new(file: OpenedFile, health: Arc<FileHealth>) -> io::Result<Self> {
        Ok(Self::over(storage(file)?, health))
    }

    /// A file with what its journal holds; its commits go through a journal too, where `options` say so.
    pub(super) fn journaled(
        file: OpenedFile,
        health: Arc<FileHealth>,
        place: JournalPlace,
        options: Option<JournalOptions>,
    ) -> io::Result<Self> {
        let mut backend = Self::over(storage(file)?, health);
        backend.journal = options.map(|options| Journal::new(place.clone(), options, Arc::clone(&backend.main)));
        backend.left_behind = Mutex::new(Some((place, true)));
        backend.is_ready = AtomicBool::new(false);
        Ok(backend)
    }

    /// A file with what its journal holds, neither of which is changed.
    pub(super) fn unchanged(file: OpenedFile, health: Arc<FileHealth>, place: JournalPlace) -> io::Result<Self> {
        let mut backend = Self::over(Box::new(Overlay::new(storage(file)?)?), health);
        backend.left_behind = Mutex::new(Some((place, false)));
        backend.is_ready = AtomicBool::new(false);
        Ok(backend)
    }

    fn over(file: Box<dyn StorageBackend>, health: Arc<FileHealth>) -> Self {
        health.start_over();
        let doubts = AtomicBool::new(!health.doubtful.lock().is_empty());
        let main = Arc::new(MainFile { file, health, unsynced: Mutex::default(), doubts });
        Self { main, journal: None, left_behind: Mutex::new(None), is_ready: AtomicBool::new(true) }
    }

    /// The file as what was promised last left it. redb asks for nothing before it has locked the file.
    fn ready(&self) -> io::Result<&dyn StorageBackend> {
        self.main.settle_doubts()?;
        if !self.is_ready.load(Ordering::Acquire) {
            let mut left_behind = self.left_behind.lock();
            if let Some((place, consume)) = left_behind.as_ref() {
                replay(place, &*self.main.file, *consume)?;
                *left_behind = None;
            }
            self.is_ready.store(true, Ordering::Release);
        }
        Ok(&*self.main.file)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.main.watch(self.ready().and_then(StorageBackend::len))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.main.watch(self.ready().and_then(|file| file.read(offset, out)))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.main.watch(self.main.file.set_len(len))?;
        if let Some(journal) = &self.journal {
            journal.note_len(len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match &self.journal {
            Some(journal) => self.main.watch(journal.sync()),
            None => self.main.sync(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.main.watch(self.main.file.write(offset, data))?;
        self.main.unsynced.lock().push(Written { offset, len: data.len() as u64 });
        if let Some(journal) = &self.journal {
            journal.note_write(offset, data);
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        let closed = match &self.journal {
            Some(journal) => self.main.watch(journal.close()),
            None => Ok(()),
        };
        // What was not synced yet is no more durable for being closed: a system that failed once may drop it silently.
        if self.main.has_failed() {
            self.main.health.doubtful.lock().append(&mut self.main.unsynced.lock());
        }
        self.main.file.close().and(closed)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.main.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.main.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.main.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.main.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.main.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.main.file.query_lock_range(start, end)
    }
}

#[cfg(feature = "__internal_faults")]
mod stand_in {
    use super::{BackendError, Bound, StorageBackend, io};
    use crate::files::RandomFile;

    /// A stand-in for the disk, with the one lock redb needs where a single process writes.
    #[derive(Debug)]
    pub(super) struct StandIn(pub(super) Box<dyn RandomFile>);

    fn is_whole(start: Bound<u64>, end: Bound<u64>) -> bool {
        matches!(start, Bound::Unbounded | Bound::Included(0)) && end == Bound::Unbounded
    }

    impl StorageBackend for StandIn {
        fn len(&self) -> io::Result<u64> {
            self.0.len_bytes()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.0.sync()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.0.unlock()
        }

        fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
            if !is_whole(start, end) {
                return Err(BackendError::Unsupported);
            }
            self.0.try_lock().map_err(BackendError::Io)
        }

        fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
            if !is_whole(start, end) {
                return Err(BackendError::Unsupported);
            }
            self.0.unlock().map_err(BackendError::Io)
        }
    }
}
