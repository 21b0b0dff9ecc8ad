//! Writing what a snapshot holds into a new file: for backups, and to leave behind what was deleted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, Key, ReadTransaction, TableDefinition, Value, WriteTransaction};

use super::backend::{Backend, FileHealth};
use super::error::guarded;
use super::rows::{self, IndexNotes};
use super::{DEFAULT_CACHE_BYTES, Snapshot, StoreError, StoreLocation, tables};
use crate::files::Files;

/// Writes everything of `snapshot` as the store of another place, which must have none. It gets an identity of its
/// own, and an index when it is opened.
///
/// # Errors
/// [`StoreError::Io`]: there is no store at that place, or one that is complete. `Ok(false)`: there was one before.
pub fn copy_to(
    snapshot: &Snapshot,
    location: &StoreLocation,
    files: &dyn Files,
    uuid: [u8; 16],
) -> Result<bool, StoreError> {
    let folder = location.folder();
    files.create_folder(folder).map_err(StoreError::io(format!("making the folder {}", folder.display())))?;
    let exists = files.exists(&location.database());
    if exists.map_err(StoreError::io("looking for a store"))? {
        return Ok(false);
    }
    let new = location.new_database();
    write_copy(snapshot, &new, files, Some(uuid))?;
    location.sync_folders_above(files)?;
    files.rename(&new, &location.database()).map_err(StoreError::io("naming the copy"))?;
    files.sync_folder(folder).map_err(StoreError::io("syncing the folder of the copy"))?;
    Ok(true)
}

/// Writes everything of `snapshot` into a new file beside the store's own: see [`put_in_place`].
///
/// # Errors
/// [`StoreError`]: the store is as it was.
pub fn write_beside(snapshot: &Snapshot, location: &StoreLocation, files: &dyn Files) -> Result<(), StoreError> {
    write_copy(snapshot, &location.new_database(), files, None)
}

/// Gives the file of [`write_beside`] the store's name. Whoever has the old one open keeps it.
///
/// # Errors
/// [`StoreError`]: the store is the old one, or after a power failure the new one; both hold the same.
pub fn put_in_place(location: &StoreLocation, files: &dyn Files) -> Result<(), StoreError> {
    files.rename(&location.new_database(), &location.database()).map_err(StoreError::io("naming the new store"))?;
    files.sync_folder(location.folder()).map_err(StoreError::io("syncing the agent's folder"))
}

/// Removes a journal that was set aside, with the texts that are in it.
///
/// # Errors
/// [`StoreError::Io`]: it is still there.
pub fn remove_journal_aside(location: &StoreLocation, files: &dyn Files) -> Result<(), StoreError> {
    match files.remove_file(&location.journal_aside()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("removing a journal set aside")(error))
        }
        _ => Ok(()),
    }
}

/// Removes the file of [`write_beside`], if there is one.
pub fn discard_beside(location: &StoreLocation, files: &dyn Files) {
    if let Err(error) = files.remove_file(&location.new_database())
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "a copy of the store that is of no use could not be removed");
    }
}

/// With `uuid`, as a store of its own, whose index is still to be made.
fn write_copy(snapshot: &Snapshot, path: &Path, files: &dyn Files, uuid: Option<[u8; 16]>) -> Result<(), StoreError> {
    match files.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::io("removing a half-made copy")(error));
        }
        _ => {}
    }
    let file = files.open(path, true).map_err(StoreError::io(format!("making {}", path.display())))?;
    let backend = Backend::new(file, Arc::<FileHealth>::default());
    let backend = backend.map_err(StoreError::io(format!("opening {}", path.display())))?;
    let mut database = Builder::new().set_cache_size(DEFAULT_CACHE_BYTES).create_with_backend(backend)?;
    guarded(|| {
        let transaction = database.begin_write()?;
        copy_tables(snapshot.transaction(), &transaction)?;
        if let Some(uuid) = uuid {
            let mut meta = transaction.open_table(tables::META)?;
            meta.insert(tables::META_UUID, uuid.as_slice())?;
            meta.insert(tables::META_INDEX, rows::encode(&IndexNotes::default()).as_slice())?;
        }
        transaction.commit()?;
        // The file grows ahead of what is in it.
        shrink(&mut database)
    })
}

fn shrink(database: &mut Database) -> Result<(), StoreError> {
    database.compact().map(|_| ()).map_err(|error| match error {
        redb::CompactionError::Storage(error) => error.into(),
        other => StoreError::Poisoned { detail: other.to_string() },
    })
}

fn copy_tables(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), StoreError> {
    copy_table(from, to, tables::META)?;
    copy_table(from, to, tables::TRANSCRIPTS)?;
    copy_table(from, to, tables::SESSIONS)?;
    copy_table(from, to, tables::WINDOWS)?;
    copy_table(from, to, tables::CURRENT)?;
    copy_table(from, to, tables::EVENTS)?;
    copy_table(from, to, tables::EVENT_IDS)?;
    copy_table(from, to, tables::IDEMPOTENCY)?;
    copy_table(from, to, tables::DOCUMENTS)?;
    copy_table(from, to, tables::ACTIVE)?;
    copy_table(from, to, tables::DEATHS)?;
    copy_table(from, to, tables::PENDING)?;
    copy_table(from, to, tables::SOURCES)?;
    copy_table(from, to, tables::TOMBSTONES)
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'_, K, V>,
) -> Result<(), StoreError> {
    let mut target = to.open_table(table)?;
    for entry in from.open_table(table)?.range::<K::SelfType<'_>>(..)? {
        let (key, value) = entry?;
        target.insert(key.value(), value.value())?;
    }
    Ok(())
}
