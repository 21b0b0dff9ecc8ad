//! The journal: what was written to the transcripts' file, once more in one place, so that a commit is one short write
//! and its sync instead of a sync of pages all over the file.
//!
//! The database writes its pages to its own file as ever. Where it asks for a sync, what it wrote since the last one
//! goes into the journal as one record, and the journal alone is synced; the file follows in the background. Whoever
//! opens the store after a crash writes the records to the file again, in order: all that a sync had promised is there,
//! and what is not in a record the database had not been promised. See `index-schema/store.md` for the bytes.
//!
//! The journal is made when a store has been written to for a while, and removed when it is closed, so that a closed
//! store is its own file alone.

mod record;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;

use self::record::{Change, HEADER_BYTES, RECORD_BYTES, TAG_BYTES, changes, outstanding};
use super::backend::{MainFile, storage};
use crate::files::{FileIdentity, Files};

/// When a journal is made and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// So many commits of one opening come first: who writes little needs none.
    pub after_commits: u32,
    /// Bytes of each of its two halves. While one is written the other's records are brought to the file.
    pub half_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { after_commits: 32, half_bytes: 8 * 1024 * 1024 }
    }
}

/// Where a journal is and which file it is for.
#[derive(Debug, Clone)]
pub(super) struct JournalPlace {
    pub(super) files: Arc<dyn Files>,
    pub(super) path: PathBuf,
    /// The transcripts' name …
    pub(super) database: PathBuf,
    /// … and which file had it when it was opened.
    pub(super) identity: Option<FileIdentity>,
}

impl JournalPlace {
    /// Whether the file that was opened has been replaced by another: then the journal is that one's.
    fn is_others(&self) -> io::Result<bool> {
        self.files.is_at(self.identity, &self.database).map(|same| !same)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |folder| self.files.sync_folder(folder))
    }

    /// A journal that is not for the file beside it is kept under this name.
    fn aside(&self) -> PathBuf {
        self.path.with_extension("aside")
    }
}

/// Where the transcripts' file says which journal is its own: the end of its first page, of which the database uses the
/// first 320 bytes. A store that was put back from a copy beside the journal of another time says something else, and a
/// page of one file must never be written to another.
const TAG_OFFSET: u64 = 4_096 - TAG_BYTES as u64;

/// Whether the journal with this head is the one that `file` names.
fn is_of(journal: &[u8], file: &dyn StorageBackend) -> io::Result<bool> {
    let mut tag = [0; TAG_BYTES];
    if file.len()? < TAG_OFFSET + TAG_BYTES as u64 {
        return Ok(false);
    }
    file.read(TAG_OFFSET, &mut tag)?;
    Ok(record::tag(journal) == Some(&tag[..]))
}

/// Brings to `file` what the journal beside it holds. The journal is gone then, save where nothing on disk may change
/// (`consume` is false: then `file` must be one that keeps its changes in memory). To be called with the file locked.
pub(super) fn replay(place: &JournalPlace, file: &dyn StorageBackend, consume: bool) -> io::Result<()> {
    if !place.files.exists(&place.path)? || place.is_others()? {
        return Ok(());
    }
    let journal = place.files.read(&place.path)?;
    let records = outstanding(&journal)?;
    if !records.is_empty() {
        if !is_of(&journal, file)? {
            tracing::warn!(journal = %place.path.display(), "the journal is of another file; it is set aside");
            if consume {
                place.files.rename(&place.path, &place.aside())?;
                place.sync_folder()?;
            }
            return Ok(());
        }
        for change in records.iter().flat_map(changes) {
            match change {
                Change::SetLen(len) => file.set_len(len)?,
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    if file.len()? < end {
                        file.set_len(end)?;
                    }
                    file.write(offset, bytes)?;
                }
            }
        }
        tracing::info!(records = records.len(), "brought from the journal to the transcripts");
    }
    if consume {
        file.sync_data()?;
        place.files.remove_file(&place.path)?;
        place.sync_folder()?;
    }
    Ok(())
}

/// What was done to the file since its last sync: a record in the making, its head still empty.
#[derive(Debug, Default)]
struct Pending {
    record: Vec<u8>,
    /// Not all of it is in `record`: it is too much, or began before there was a journal.
    is_partial: bool,
}

/// The journal in use.
#[derive(Debug)]
struct Log {
    file: Box<dyn StorageBackend>,
    half_bytes: u64,
    /// Which half is written, and how much of it is.
    half: usize,
    at: u64,
    /// Number of the last record.
    sequence: u64,
    /// Last record of each half.
    last: [u64; 2],
    /// Records up to this one are in the file, synced …
    synced: u64,
    /// … and up to this one a record says so.
    noted: u64,
}

impl Log {
    /// Writes a record, whose head is filled in, and syncs it. `false`: there is no room until the other half is in
    /// the file.
    fn append(&mut self, record: &mut [u8]) -> io::Result<bool> {
        let len = record.len() as u64;
        if self.at + len > self.half_bytes {
            let other = 1 - self.half;
            if self.last[other] > self.synced || len > self.half_bytes {
                return Ok(false);
            }
            (self.half, self.at) = (other, 0);
        }
        record::complete(record, self.sequence + 1, self.synced);
        self.file.write(HEADER_BYTES + self.half as u64 * self.half_bytes + self.at, record)?;
        self.file.sync_data()?;
        self.sequence += 1;
        self.last[self.half] = self.sequence;
        self.noted = self.synced;
        self.at += len;
        Ok(true)
    }

    /// Everything is in the file, synced: says so, so that no record is written to it again.
    fn note_all_synced(&mut self) -> io::Result<()> {
        self.synced = self.sequence;
        if self.noted == self.sequence {
            return Ok(());
        }
        if !self.append(&mut [0; RECORD_BYTES])? {
            return Err(io::Error::other("the journal has no room"));
        }
        // The record that says so holds nothing to write.
        (self.synced, self.noted) = (self.sequence, self.sequence);
        Ok(())
    }
}

/// What is asked of the thread that works behind a journal.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    #[default]
    Nothing,
    /// The file is to be synced: a half is full.
    Sync,
    Stop,
}

#[derive(Debug)]
struct Shared {
    place: JournalPlace,
    options: JournalOptions,
    main: Arc<MainFile>,
    recording: AtomicBool,
    pending: Mutex<Pending>,
    log: Mutex<Option<Log>>,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

/// The journal of one opened file.
#[derive(Debug)]
pub(super) struct Journal {
    shared: Arc<Shared>,
    commits: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    pub(super) fn new(place: JournalPlace, options: JournalOptions, main: Arc<MainFile>) -> Self {
        let shared = Shared {
            place,
            options,
            main,
            recording: AtomicBool::new(false),
            pending: Mutex::default(),
            log: Mutex::new(None),
            wanted: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { shared: Arc::new(shared), commits: AtomicU32::new(0), thread: Mutex::new(None) }
    }

    /// Largest record, so that a half holds a few.
    fn max_record_bytes(&self) -> usize {
        (self.shared.options.half_bytes / 4) as usize
    }

    /// Notes a change of about so many bytes, where there is a journal.
    fn note(&self, len: usize, push: impl FnOnce(&mut Vec<u8>)) {
        if !self.shared.recording.load(Ordering::Acquire) {
            return;
        }
        let mut pending = self.shared.pending.lock();
        if pending.is_partial || pending.record.len() + len > self.max_record_bytes() {
            *pending = Pending { record: Vec::new(), is_partial: true };
            return;
        }
        push(&mut pending.record);
    }

    /// `bytes` were written to the file.
    pub(super) fn note_write(&self, offset: u64, bytes: &[u8]) {
        self.note(bytes.len(), |record| record::push_write(record, offset, bytes));
    }

    /// The file was cut, or grew.
    pub(super) fn note_len(&self, len: u64) {
        self.note(0, |record| record::push_len(record, len));
    }

    /// Makes everything written so far durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let main = &self.shared.main;
        // Taken first: between the two a journal could begin that knows nothing of what is pending.
        let mut slot = self.shared.log.lock();
        let mut pending = std::mem::take(&mut *self.shared.pending.lock());
        let Some(log) = slot.as_mut() else {
            drop(slot);
            main.sync()?;
            self.count_commit();
            return Ok(());
        };
        if pending.is_partial {
            main.sync()?;
            return log.note_all_synced();
        }
        if pending.record.is_empty() {
            return Ok(());
        }
        let half = log.half;
        if !log.append(&mut pending.record)? {
            main.sync()?;
            // This commit is in the file too, and a record of it would be written again in vain.
            return log.note_all_synced();
        }
        if log.half != half {
            self.shared.ask(Wanted::Sync);
        }
        drop(slot);
        // The next record is about as long: it is made in the same place.
        let mut next = self.shared.pending.lock();
        if next.record.is_empty() {
            pending.record.clear();
            next.record = pending.record;
        }
        Ok(())
    }

    /// Begins a journal once there were enough commits for it to be worth it.
    fn count_commit(&self) {
        if self.commits.fetch_add(1, Ordering::Relaxed) != self.shared.options.after_commits {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("sessions-search journal".into()).spawn(move || shared.work());
        match spawned {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread for the journal; commits sync the file itself"),
        }
    }

    fn stop(&self) {
        self.shared.ask(Wanted::Stop);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Brings everything to the file and removes the journal. Where the disk has failed it stays for the next opening.
    pub(super) fn close(&self) -> io::Result<()> {
        self.stop();
        let Some(mut log) = self.shared.log.lock().take() else { return Ok(()) };
        if self.shared.main.has_failed() {
            return Ok(());
        }
        self.shared.main.sync()?;
        log.note_all_synced()?;
        log.file.close()?;
        drop(log);
        // Nothing of it would be written again if it came back.
        self.shared.place.files.remove_file(&self.shared.place.path)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn ask(&self, what: Wanted) {
        let mut wanted = self.wanted.lock();
        if *wanted != Wanted::Stop {
            *wanted = what;
        }
        self.changed.notify_all();
    }

    /// The thread behind a journal: makes it, then brings full halves to the file.
    fn work(&self) {
        match self.make() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, "no journal could be made; commits sync the file itself");
                let _ = self.place.files.remove_file(&self.place.path);
                return;
            }
        }
        loop {
            {
                let mut wanted = self.wanted.lock();
                while *wanted == Wanted::Nothing {
                    self.changed.wait(&mut wanted);
                }
                if *wanted == Wanted::Stop {
                    return;
                }
                *wanted = Wanted::Nothing;
            }
            let Some(through) = self.log.lock().as_ref().map(|log| log.sequence) else { return };
            // A failure is noted there, and met by the next commit.
            if self.main.sync().is_err() {
                return;
            }
            if let Some(log) = self.log.lock().as_mut() {
                log.synced = log.synced.max(through);
            }
        }
    }

    /// Makes the file, its blocks written so that a sync has nothing to allocate. `false`: it is not wanted any more.
    fn make(&self) -> io::Result<bool> {
        if self.place.is_others()? || self.main.has_failed() {
            return Ok(false);
        }
        let file = storage(self.place.files.open(&self.place.path, true)?)?;
        // What is left of one that could not be removed.
        file.set_len(0)?;
        let half_bytes = self.options.half_bytes;
        let zeros = vec![0; 64 * 1024];
        let end = HEADER_BYTES + 2 * half_bytes;
        let mut at = 0;
        while at < end {
            if *self.wanted.lock() == Wanted::Stop {
                drop(file);
                self.place.files.remove_file(&self.place.path)?;
                return Ok(false);
            }
            let len = (end - at).min(zeros.len() as u64);
            file.write(at, &zeros[..len as usize])?;
            at += len;
        }
        let tag = uuid::Uuid::new_v4().into_bytes();
        self.main.write_beyond(TAG_OFFSET, &tag)?;
        self.main.sync()?;
        file.write(0, &record::header(half_bytes, tag))?;
        file.sync_data()?;
        self.place.sync_folder()?;
        // A commit under way has written before this: the next sync is the file's.
        let mut log = self.log.lock();
        let mut pending = self.pending.lock();
        pending.is_partial = true;
        self.recording.store(true, Ordering::Release);
        *log = Some(Log { file, half_bytes, half: 0, at: 0, sequence: 0, last: [0; 2], synced: 0, noted: 0 });
        Ok(true)
    }
}
