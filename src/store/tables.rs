//! The tables of `transcripts.redb`, formats 1 and 2. Rows are a version byte and postcard fields (see `rows`).

use redb::TableDefinition;

/// The format this build writes: a crash may leave a part of the store in its journal.
pub(super) const FORMAT: u32 = 2;
/// The oldest it reads, and makes a store of today's format of when it opens one. It knew no journal.
pub(super) const OLDEST_FORMAT: u32 = 1;

/// Single values by name: see the `meta` keys below.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Session id → transcript number.
pub(super) const TRANSCRIPTS: TableDefinition<'_, &str, u64> = TableDefinition::new("transcripts");
/// Transcript number → session row.
pub(super) const SESSIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("sessions");
/// (session key, transcript number) → nothing: the windows of a key.
pub(super) const WINDOWS: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("windows");
/// Session key → transcript number of its current window.
pub(super) const CURRENT: TableDefinition<'_, &str, u64> = TableDefinition::new("current");
/// (transcript number, seq) → event row, the raw line last.
pub(super) const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");
/// (transcript number, event id) → seq.
pub(super) const EVENT_IDS: TableDefinition<'_, (u64, &str), u64> = TableDefinition::new("event_ids");
/// (transcript number, idempotency key) → seq.
pub(super) const IDEMPOTENCY: TableDefinition<'_, (u64, &str), u64> = TableDefinition::new("idempotency");
/// Document number → document row, the searchable text last.
pub(super) const DOCUMENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("documents");
/// (transcript number, seq) → document number: the searchable messages of the active path.
pub(super) const ACTIVE: TableDefinition<'_, (u64, u64), u64> = TableDefinition::new("active");
/// Death number → death row: what the index holds and must not answer.
pub(super) const DEATHS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("deaths");
/// Transcript number → nothing: sessions that wait for a rebuild.
pub(super) const PENDING: TableDefinition<'_, u64, ()> = TableDefinition::new("pending");
/// Path of an imported file → source row.
pub(super) const SOURCES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sources");
/// Session id → time of its deletion in milliseconds (D27).
pub(super) const TOMBSTONES: TableDefinition<'_, &str, i64> = TableDefinition::new("tombstones");

/// `meta`: the store's format, 4 bytes little endian.
pub(super) const META_FORMAT: &str = "format";
/// `meta`: 16 random bytes given at creation; ties an index folder to its store.
pub(super) const META_UUID: &str = "uuid";
/// `meta`: counters row.
pub(super) const META_COUNTERS: &str = "counters";
/// `meta`: statistics row.
pub(super) const META_STATISTICS: &str = "statistics";
/// `meta`: schema row.
pub(super) const META_SCHEMA: &str = "schema";
/// `meta`: index notes row.
pub(super) const META_INDEX: &str = "index";
