//! A disk in memory that forgets what was not synced, and fails when told to.
//!
//! [`Disk`] stands in for the real one. Everything that changes it goes through [`Change`]s, which it records: any
//! prefix of the record is a moment at which the power may fail. [`Volume::after_power_cut`] then decides what of the
//! unsynced changes is left: of every file any part of its writes, torn ones included, of every folder any part of its
//! new names, renames and removals, each independent of all others.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sessions_search::__internal::faults::{Content, FileLock, Files, NewFile, OpenedFile, RandomFile};

use crate::random::Random;

const PAGE: usize = 4_096;
/// What a disk writes whole or not at all; less than that is torn only now and then.
const SECTOR: usize = 512;

/// The bytes of a file, in pages that copies share.
#[derive(Debug, Clone, Default)]
struct Bytes {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    len: usize,
}

impl Bytes {
    fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset + out.len() > self.len {
            return false;
        }
        let mut done = 0;
        while done < out.len() {
            let (page, start) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let n = (PAGE - start).min(out.len() - done);
            match &self.pages[page] {
                Some(bytes) => out[done..done + n].copy_from_slice(&bytes[start..start + n]),
                None => out[done..done + n].fill(0),
            }
            done += n;
        }
        true
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        if offset + data.len() > self.len {
            self.set_len(offset + data.len());
        }
        let mut done = 0;
        while done < data.len() {
            let (page, start) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let n = (PAGE - start).min(data.len() - done);
            let bytes = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[start..start + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
    }

    fn set_len(&mut self, len: usize) {
        self.pages.resize(len.div_ceil(PAGE), None);
        if len < self.len
            && let Some(Some(last)) = self.pages.last_mut()
            && !len.is_multiple_of(PAGE)
        {
            Arc::make_mut(last)[len % PAGE..].fill(0);
        }
        self.len = len;
    }

    fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        assert!(self.read(0, &mut bytes));
        bytes
    }
}

type Node = usize;

/// A change of a file that is not durable yet.
#[derive(Debug, Clone)]
enum Unsynced {
    Write { offset: usize, data: Arc<[u8]> },
    SetLen(usize),
}

/// Names that change together: those of one rename.
type Names = Vec<(OsString, Option<Node>)>;

/// A file or a folder: as the system shows it, as it is durable, and the way from one to the other.
#[derive(Debug, Clone)]
enum Inode {
    File { shown: Bytes, durable: Bytes, unsynced: Vec<Unsynced> },
    Folder { shown: BTreeMap<OsString, Node>, durable: BTreeMap<OsString, Node>, unsynced: Vec<Names> },
}

/// One recorded change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write {
        file: Node,
        offset: usize,
        data: Arc<[u8]>,
    },
    SetLen {
        file: Node,
        len: usize,
    },
    SyncFile {
        file: Node,
    },
    /// A sync that failed: what it should have written is shown, taken for written, and lost with the power.
    ForgetUnsynced {
        file: Node,
    },
    Create {
        folder: Node,
        name: OsString,
        is_folder: bool,
    },
    Rename {
        folder: Node,
        from: OsString,
        to: OsString,
    },
    Remove {
        folder: Node,
        name: OsString,
    },
    SyncFolder {
        folder: Node,
    },
}

/// What a power cut leaves of unsynced changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All of them are lost.
    All,
    /// None is, for only the process ends. What was not synced may still be lost by a power cut to come.
    Nothing,
    /// Any of them, file by file and folder by folder.
    Some,
}

/// Everything on the disk.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    inodes: Vec<Inode>,
}

const ROOT: Node = 0;

impl Volume {
    pub(crate) fn new() -> Self {
        Self { inodes: vec![Inode::Folder { shown: BTreeMap::new(), durable: BTreeMap::new(), unsynced: Vec::new() }] }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, offset, data } => {
                let Inode::File { shown, unsynced, .. } = &mut self.inodes[*file] else { panic!("not a file") };
                shown.write(*offset, data);
                unsynced.push(Unsynced::Write { offset: *offset, data: Arc::clone(data) });
            }
            Change::SetLen { file, len } => {
                let Inode::File { shown, unsynced, .. } = &mut self.inodes[*file] else { panic!("not a file") };
                shown.set_len(*len);
                unsynced.push(Unsynced::SetLen(*len));
            }
            Change::SyncFile { file } => {
                let Inode::File { durable, unsynced, .. } = &mut self.inodes[*file] else { panic!("not a file") };
                for change in unsynced.drain(..) {
                    keep(durable, &change, None);
                }
            }
            Change::ForgetUnsynced { file } => {
                let Inode::File { unsynced, .. } = &mut self.inodes[*file] else { panic!("not a file") };
                unsynced.clear();
            }
            Change::Create { folder, name, is_folder } => {
                let node = self.inodes.len();
                self.inodes.push(if *is_folder {
                    Inode::Folder { shown: BTreeMap::new(), durable: BTreeMap::new(), unsynced: Vec::new() }
                } else {
                    Inode::File { shown: Bytes::default(), durable: Bytes::default(), unsynced: Vec::new() }
                });
                self.name(*folder, vec![(name.clone(), Some(node))]);
            }
            Change::Rename { folder, from, to } => {
                let node = self.entry(*folder, from).expect("what is renamed is there");
                self.name(*folder, vec![(from.clone(), None), (to.clone(), Some(node))]);
            }
            Change::Remove { folder, name } => self.name(*folder, vec![(name.clone(), None)]),
            Change::SyncFolder { folder } => {
                let Inode::Folder { shown, durable, unsynced } = &mut self.inodes[*folder] else {
                    panic!("not a folder")
                };
                durable.clone_from(shown);
                unsynced.clear();
            }
        }
    }

    fn name(&mut self, folder: Node, names: Names) {
        let Inode::Folder { shown, unsynced, .. } = &mut self.inodes[folder] else { panic!("not a folder") };
        rename(shown, &names);
        unsynced.push(names);
    }

    fn entry(&self, folder: Node, name: &OsString) -> Option<Node> {
        match &self.inodes[folder] {
            Inode::Folder { shown, .. } => shown.get(name).copied(),
            Inode::File { .. } => None,
        }
    }

    fn find(&self, path: &Path) -> Option<Node> {
        names(path).iter().try_fold(ROOT, |node, name| self.entry(node, name))
    }

    /// Takes a folder away, durably: as if somebody had lost it.
    pub(crate) fn remove_folder(&mut self, path: &Path) {
        let (folder, name) = self.parent(path).expect("a folder above");
        self.apply(&Change::Remove { folder, name });
        self.apply(&Change::SyncFolder { folder });
    }

    fn parent(&self, path: &Path) -> Option<(Node, OsString)> {
        let name = path.file_name()?.to_owned();
        let folder = self.find(path.parent()?)?;
        matches!(self.inodes[folder], Inode::Folder { .. }).then_some((folder, name))
    }

    /// The disk as it is found when the power is back.
    pub(crate) fn after_power_cut(&self, loss: Loss, random: &mut Random) -> Self {
        if loss == Loss::Nothing {
            return self.clone();
        }
        let inodes = self.inodes.iter().map(|inode| match inode {
            Inode::File { durable, unsynced, .. } => {
                let mut left = durable.clone();
                if loss == Loss::Some {
                    let chosen = choose(unsynced.len(), random);
                    for (i, change) in unsynced.iter().enumerate().filter(|(i, _)| chosen[*i]) {
                        // The last one may well be torn; any may.
                        let torn = random.below(if i + 1 == unsynced.len() { 3 } else { 12 }) == 0;
                        keep(&mut left, change, torn.then_some(&mut *random));
                    }
                }
                Inode::File { shown: left.clone(), durable: left, unsynced: Vec::new() }
            }
            Inode::Folder { durable, unsynced, .. } => {
                let mut left = durable.clone();
                if loss == Loss::Some {
                    let chosen = choose(unsynced.len(), random);
                    for (_, names) in unsynced.iter().enumerate().filter(|(i, _)| chosen[*i]) {
                        rename(&mut left, names);
                    }
                }
                Inode::Folder { shown: left.clone(), durable: left, unsynced: Vec::new() }
            }
        });
        Self { inodes: inodes.collect() }
    }
}

/// Which of `n` changes are kept: none, all, the first few, or any.
fn choose(n: usize, random: &mut Random) -> Vec<bool> {
    match random.below(5) {
        0 => vec![false; n],
        1 => vec![true; n],
        2 => {
            let first = random.below(n + 1);
            (0..n).map(|i| i < first).collect()
        }
        _ => (0..n).map(|_| random.below(2) == 0).collect(),
    }
}

/// Applies a change to what is durable, or a part of it.
fn keep(durable: &mut Bytes, change: &Unsynced, torn: Option<&mut Random>) {
    match (change, torn) {
        (Unsynced::SetLen(len), _) => durable.set_len(*len),
        (Unsynced::Write { offset, data }, None) => durable.write(*offset, data),
        (Unsynced::Write { offset, data }, Some(random)) => match random.below(4) {
            0 => durable.write(*offset, &data[..random.below(data.len() + 1)]),
            _ => {
                for (i, sector) in data.chunks(SECTOR).enumerate() {
                    if random.below(2) == 0 {
                        durable.write(offset + i * SECTOR, sector);
                    }
                }
            }
        },
    }
}

fn rename(entries: &mut BTreeMap<OsString, Node>, names: &Names) {
    for (name, node) in names {
        match node {
            Some(node) => entries.insert(name.clone(), *node),
            None => entries.remove(name),
        };
    }
}

fn names(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect()
}

/// One kind of operation, for choosing which fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    Write,
    SetLen,
    SyncFile,
    SyncFolder,
    Create,
    Rename,
    Remove,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `ENOSPC`; a write has written a part of it.
    NoSpace,
    /// `EIO`; a sync has lost what it should have written.
    Broken,
    /// `EROFS`: whatever would change something.
    ReadOnly,
    /// No failure of a disk but of a program: whoever calls panics.
    Panic,
}

impl Fault {
    fn error(self) -> io::Error {
        // By number, as the system gives them: 28 is ENOSPC, 5 is EIO.
        io::Error::from_raw_os_error(match self {
            Self::ReadOnly => 30,
            Self::NoSpace => 28,
            Self::Broken | Self::Panic => 5,
        })
    }

    /// Whether a call can fail so.
    pub(crate) fn concerns(self, call: Call) -> bool {
        match self {
            Self::NoSpace => !matches!(call, Call::Read | Call::Remove),
            Self::ReadOnly => call != Call::Read,
            Self::Broken | Self::Panic => true,
        }
    }
}

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
struct Plan {
    fault: Fault,
    /// Only calls on paths that hold this.
    within: &'static str,
    /// Calls it concerns that still succeed.
    after: usize,
    /// Calls that fail then; `usize::MAX`: all until [`Disk::mend`].
    times: usize,
}

#[derive(Debug)]
struct State {
    volume: Volume,
    record: Option<Vec<Change>>,
    plan: Option<Plan>,
    /// Calls since [`Disk::count_calls`], by what they do.
    calls: Vec<(Call, String)>,
    failed: usize,
    locks: HashMap<Node, u64>,
    next_handle: u64,
    /// How long every write below a folder of this name takes.
    slow: Option<(OsString, Duration)>,
}

/// The stand-in for the disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub(crate) fn new(volume: Volume) -> Self {
        Self(Arc::new(Mutex::new(State {
            volume,
            record: None,
            plan: None,
            calls: Vec::new(),
            failed: 0,
            locks: HashMap::new(),
            next_handle: 0,
            slow: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn volume(&self) -> Volume {
        self.state().volume.clone()
    }

    /// Records every change from now on.
    pub(crate) fn record(&self) {
        self.state().record = Some(Vec::new());
    }

    /// How many changes are recorded.
    pub(crate) fn recorded(&self) -> usize {
        self.state().record.as_ref().map_or(0, Vec::len)
    }

    /// Ends the record.
    pub(crate) fn take_record(&self) -> Vec<Change> {
        self.state().record.take().unwrap_or_default()
    }

    /// The calls that were made since the last time this was asked.
    pub(crate) fn take_calls(&self) -> Vec<(Call, String)> {
        std::mem::take(&mut self.state().calls)
    }

    /// From now on `after` calls that can fail so succeed, then `times` fail.
    pub(crate) fn fail(&self, fault: Fault, after: usize, times: usize) {
        self.fail_within("", fault, after, times);
    }

    /// The same for calls on paths that hold `within`.
    pub(crate) fn fail_within(&self, within: &'static str, fault: Fault, after: usize, times: usize) {
        let mut state = self.state();
        state.plan = Some(Plan { fault, within, after, times });
        state.failed = 0;
    }

    /// Nothing fails any more. Gives how many calls have.
    pub(crate) fn mend(&self) -> usize {
        let mut state = self.state();
        state.plan = None;
        state.failed
    }

    /// How many calls have still to fail.
    pub(crate) fn still_fails(&self) -> usize {
        self.state().plan.map_or(0, |plan| plan.times)
    }

    /// Makes writes below folders of this name slow.
    pub(crate) fn slow_down(&self, folder: &str, by: Duration) {
        self.state().slow = Some((folder.into(), by));
    }

    /// Notes a call; an error if it is to fail.
    fn call(&self, call: Call, what: impl FnOnce() -> String) -> io::Result<()> {
        let mut state = self.state();
        let what = what();
        if let Some((folder, by)) = state.slow.clone()
            && call == Call::Write
            && what.contains(&*folder.to_string_lossy())
        {
            drop(state);
            std::thread::sleep(by);
            state = self.state();
        }
        let concerned = |plan: &Plan| plan.fault.concerns(call) && what.contains(plan.within);
        let concerned = state.plan.as_ref().is_some_and(concerned);
        state.calls.push((call, what));
        let Some(plan) = &mut state.plan else { return Ok(()) };
        if !concerned {
            return Ok(());
        }
        if plan.after > 0 {
            plan.after -= 1;
            return Ok(());
        }
        if plan.times == 0 {
            return Ok(());
        }
        plan.times = plan.times.saturating_sub(usize::from(plan.times != usize::MAX));
        let fault = plan.fault;
        state.failed += 1;
        drop(state);
        assert_ne!(fault, Fault::Panic, "meant to");
        Err(fault.error())
    }

    fn change(&self, change: Change) {
        let mut state = self.state();
        state.volume.apply(&change);
        if let Some(record) = &mut state.record {
            record.push(change);
        }
    }

    fn find(&self, path: &Path) -> io::Result<Node> {
        self.state().volume.find(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find_file(&self, path: &Path) -> io::Result<Node> {
        let node = self.find(path)?;
        match self.state().volume.inodes[node] {
            Inode::File { .. } => Ok(node),
            Inode::Folder { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn parent(&self, path: &Path) -> io::Result<(Node, OsString)> {
        self.state().volume.parent(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn handle(&self, node: Node, path: &Path) -> Handle {
        let mut state = self.state();
        state.next_handle += 1;
        Handle { disk: self.clone(), node, path: path.to_owned(), id: state.next_handle }
    }

    fn create_file(&self, path: &Path) -> io::Result<Node> {
        self.call(Call::Create, || path.display().to_string())?;
        let (folder, name) = self.parent(path)?;
        self.change(Change::Create { folder, name, is_folder: false });
        self.find(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        self.call(Call::Remove, || path.display().to_string())?;
        let (folder, name) = self.parent(path)?;
        self.change(Change::Remove { folder, name });
        Ok(())
    }
}

impl Files for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut at = PathBuf::from("/");
        for name in names(path) {
            at.push(&name);
            if self.find(&at).is_err() {
                self.call(Call::Create, || at.display().to_string())?;
                let (folder, name) = self.parent(&at)?;
                self.change(Change::Create { folder, name, is_folder: true });
            }
        }
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let folder = self.find(path)?;
        self.call(Call::SyncFolder, || path.display().to_string())?;
        self.change(Change::SyncFolder { folder });
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let node = self.find(folder)?;
        match &self.state().volume.inodes[node] {
            Inode::Folder { shown, .. } => Ok(shown.keys().map(PathBuf::from).collect()),
            Inode::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.find(path).is_ok())
    }

    fn len_bytes(&self, path: &Path) -> io::Result<u64> {
        let node = self.find_file(path)?;
        self.handle(node, path).len_bytes()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let node = self.find_file(path)?;
        self.call(Call::Read, || path.display().to_string())?;
        match &self.state().volume.inodes[node] {
            Inode::File { shown, .. } => Ok(shown.to_vec()),
            Inode::Folder { .. } => unreachable!("it is a file"),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.find(from)?;
        self.call(Call::Rename, || from.display().to_string())?;
        let (folder, from) = self.parent(from)?;
        let (other, to) = self.parent(to)?;
        assert_eq!(folder, other, "nothing is moved between folders");
        self.change(Change::Rename { folder, from, to });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.find_file(path)?;
        self.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        for name in self.list(path)? {
            let path = path.join(name);
            match self.find_file(&path) {
                Ok(_) => self.remove(&path)?,
                Err(_) => self.remove_folder(&path)?,
            }
        }
        self.remove(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = self.create_file(path)?;
        Ok(Box::new(Sequential { handle: self.handle(node, path), at: 0 }))
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<OpenedFile> {
        let node = match self.find_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => self.create_file(path)?,
            found => found?,
        };
        Ok(OpenedFile::StandIn(Box::new(self.handle(node, path))))
    }

    fn content(&self, path: &Path) -> io::Result<Content> {
        Ok(Content::StandIn(Files::read(self, path)?.into()))
    }

    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<FileLock>> {
        let node = match self.find_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_file(path)?,
            found => found?,
        };
        let handle = self.handle(node, path);
        loop {
            if handle.try_lock()? {
                return Ok(Some(FileLock::new(handle)));
            }
            if !wait {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// An open file. Its locks go with it.
#[derive(Debug)]
struct Handle {
    disk: Disk,
    node: Node,
    path: PathBuf,
    id: u64,
}

impl Handle {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Writes all of it, or the first half where it fails for want of space.
    fn write_at(&self, offset: usize, data: &[u8]) -> io::Result<()> {
        let called = self.disk.call(Call::Write, || self.name());
        let no_space = called.as_ref().is_err_and(|error| error.raw_os_error() == Some(28));
        let written = match &called {
            Ok(()) => data,
            Err(_) if no_space => &data[..data.len() / 2],
            Err(_) => &[],
        };
        if !written.is_empty() {
            self.disk.change(Change::Write { file: self.node, offset, data: written.into() });
        }
        called
    }

    fn sync_file(&self) -> io::Result<()> {
        let called = self.disk.call(Call::SyncFile, || self.name());
        match called {
            Ok(()) => self.disk.change(Change::SyncFile { file: self.node }),
            Err(_) => self.disk.change(Change::ForgetUnsynced { file: self.node }),
        }
        called
    }
}

impl RandomFile for Handle {
    fn len_bytes(&self) -> io::Result<u64> {
        match &self.disk.state().volume.inodes[self.node] {
            Inode::File { shown, .. } => Ok(shown.len as u64),
            Inode::Folder { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.call(Call::Read, || self.name())?;
        let Inode::File { shown, .. } = &self.disk.state().volume.inodes[self.node] else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        if shown.read(offset as usize, buffer) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset as usize, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call(Call::SetLen, || self.name())?;
        self.disk.change(Change::SetLen { file: self.node, len: len as usize });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_file()
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        Ok(*state.locks.entry(self.node).or_insert(self.id) == self.id)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.locks.get(&self.node) == Some(&self.id) {
            state.locks.remove(&self.node);
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}

/// A file written from start to end.
struct Sequential {
    handle: Handle,
    at: usize,
}

impl Write for Sequential {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.handle.write_at(self.at, bytes)?;
        self.at += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for Sequential {
    fn sync(&mut self) -> io::Result<()> {
        self.handle.sync_file()
    }
}
