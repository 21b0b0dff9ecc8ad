//! A source that was written anew: its session is read anew beside what is stored, and takes its place at once. Nobody
//! ever finds less than one of the two.

use std::collections::BTreeMap;

use super::{BATCH_BYTES, BATCH_ROWS, EventLine, Run, SessionBatch, SourceBatch, is_deleted, side_name};
use crate::commit::Appended;
use crate::engine::Engine;
use crate::import::{self, Item, Position, Source};
use crate::model::{SessionFacts, SessionId};
use crate::store::{SourceRow, StoreError, TranscriptNumber};
use crate::transcript::EventKind;

use super::ImportError;

/// A session that is read anew.
struct Staged {
    transcript: TranscriptNumber,
    /// `None`: the source's own.
    side: Option<SessionId>,
}

impl Run<'_> {
    /// Puts what the file says now in the place of what it said, of its own session and of those of sub-agents in it.
    /// What is stored stays where the file cannot be read to its end, or holds nothing, or where some of it came from
    /// elsewhere.
    pub(super) fn replace(&mut self, engine: &Engine, source: &Source) -> Result<(), ImportError> {
        self.flush(engine)?;
        match is_usable(source) {
            Ok(true) => {}
            Ok(false) => {
                let id = &source.session_id;
                self.keep(
                    source,
                    &format!("it is cut off or holds no event; session {id} stays until the file is whole"),
                );
                return Ok(());
            }
            Err(error) => return self.unreadable(source, error),
        }
        let name = source.name();
        let snapshot = engine.committer.snapshot()?;
        // What else the session was read from: files of this run are compared with it again.
        let older = source.replaces().map(|path| path.to_string_lossy().into_owned());
        let (mut rows, mut others) = (0, Vec::new());
        for (other, row) in snapshot.sources_of(&source.session_id)? {
            if other == name || self.names.contains(&other) || older.as_ref() == Some(&other) {
                rows += row.rows;
            }
            if other != name {
                others.push(other);
            }
        }
        let stored = match snapshot.transcript(&source.session_id)? {
            Some(transcript) => snapshot.session(transcript)?.map_or(0, |row| row.next_seq),
            None => 0,
        };
        if stored > rows {
            let (id, more) = (&source.session_id, stored - rows);
            self.keep(
                source,
                &format!("session {id} is kept as it is, for {more} of its events came from elsewhere; to take the file instead, delete the session and import with `--revive`"),
            );
            return Ok(());
        }
        let before: BTreeMap<SessionId, SourceRow> = snapshot
            .sources_below(&side_name(&name, ""))?
            .into_iter()
            .map(|row| (row.session_id.clone(), row))
            .collect();
        drop(snapshot);

        let mut replacement =
            Replacement { staged: Vec::new(), before, read: BTreeMap::new(), end: Position::default(), mark: 0 };
        let done = self
            .stage(engine, source, stored, &mut replacement)
            .and_then(|done| if done { self.publish(engine, source, &replacement, others) } else { Ok(false) });
        if !matches!(done, Ok(true)) {
            for staged in &replacement.staged {
                if let Err(error) = engine.committer.drop_staged(staged.transcript) {
                    tracing::warn!(%error, "what was read anew of a session is dropped at the next open");
                }
            }
        }
        done.map(|_| ())
    }

    /// Reads the file into sessions that nobody sees. `false`: it can't be done now, and that was said.
    fn stage(
        &mut self,
        engine: &Engine,
        source: &Source,
        stored: u64,
        replacement: &mut Replacement,
    ) -> Result<bool, ImportError> {
        let mut reader = match import::open(source, None) {
            Ok(reader) => reader,
            Err(error) => return self.unreadable(source, error).map(|()| false),
        };
        if stored > 0 && !self.begin(engine, replacement, None, &source.session_id, stored, &source.facts)? {
            self.keep(source, "its session changed at the same time; import it again");
            return Ok(false);
        }
        self.summary.files += 1;
        let (mut batch, mut deleted) = (SourceBatch::default(), BTreeMap::new());
        for item in reader.by_ref() {
            match item {
                Ok(Item::Event(event)) => {
                    replacement.end = event.end;
                    if let Some(side) = &event.side {
                        if is_deleted(engine, &side.session_id, &mut deleted)? {
                            self.summary.skip("its session was deleted on purpose");
                            continue;
                        }
                        let known = replacement.before.get(&side.session_id).map(|row| row.rows);
                        let is_begun = replacement.staged.iter().any(|s| s.side.as_ref() == Some(&side.session_id));
                        if let Some(rows) = known.filter(|_| !is_begun) {
                            // One that has grown otherwise goes on as it is.
                            let id = Some(side.session_id.clone());
                            self.begin(engine, replacement, id, &side.session_id, rows, &side.facts)?;
                        }
                    }
                    for warning in &event.warnings {
                        self.summary.warn(&source.path, event.line, warning.to_string());
                    }
                    batch.push(engine, source, *event);
                }
                Ok(Item::Skipped { end, .. }) => {
                    self.summary.skip("blank line");
                    replacement.end = end;
                }
                Ok(Item::Rejected { line, reason, end }) => {
                    self.summary.reject(&source.path, line, reason.to_string());
                    replacement.end = end;
                }
                Ok(Item::Torn { .. }) => break,
                Err(error) => {
                    self.unreadable(source, error)?;
                    return Ok(false);
                }
            }
            if self.is_stopped() {
                return Ok(false);
            }
            if batch.rows >= BATCH_ROWS || batch.bytes >= BATCH_BYTES {
                self.store(engine, source, std::mem::take(&mut batch), replacement)?;
                (self.progress)(&self.at);
            }
        }
        self.store(engine, source, batch, replacement)?;
        replacement.mark = reader.resume_point(replacement.end)?.mark();
        Ok(true)
    }

    fn begin(
        &mut self,
        engine: &Engine,
        replacement: &mut Replacement,
        side: Option<SessionId>,
        id: &SessionId,
        events: u64,
        facts: &SessionFacts,
    ) -> Result<bool, StoreError> {
        let begun = engine.committer.stage(id.clone(), events, facts.clone(), self.now)?;
        if let Some(transcript) = begun {
            replacement.staged.push(Staged { transcript, side });
        }
        Ok(begun.is_some())
    }

    /// Stores a batch, each session's events where they belong.
    fn store(
        &mut self,
        engine: &Engine,
        source: &Source,
        batch: SourceBatch,
        replacement: &mut Replacement,
    ) -> Result<(), ImportError> {
        for session in batch.sessions {
            let side = session.side.as_ref().map(|side| side.session_id.clone());
            let id = side.clone().unwrap_or_else(|| source.session_id.clone());
            let staged = replacement.staged.iter().find(|staged| staged.side == side).map(|staged| staged.transcript);
            let stored = match staged {
                Some(transcript) => {
                    let SessionBatch { events, lines, .. } = session;
                    let results = engine.committer.import_staged(transcript, events, self.now)?;
                    self.account(engine, source, &id, lines, results)
                }
                // New to the store: seen as it comes.
                None => {
                    let target = session.target(source);
                    let (lines, events) = (session.lines, session.events);
                    match engine.committer.import_events(target, events, self.now)? {
                        Ok(results) => self.account(engine, source, &id, lines, results),
                        Err(refusal) => {
                            lines.into_iter().for_each(|line| self.refused(&source.path, line, refusal.to_string()));
                            0
                        }
                    }
                }
            };
            *replacement.read.entry(side).or_default() += stored;
        }
        Ok(())
    }

    /// Counts what became of lines; gives how many were stored.
    fn account(
        &mut self,
        engine: &Engine,
        source: &Source,
        id: &SessionId,
        lines: Vec<EventLine>,
        results: Vec<Result<Appended, crate::commit::AppendRefusal>>,
    ) -> u64 {
        let stored = results.iter().filter(|result| matches!(result, Ok(Appended::Stored(_)))).count();
        self.count_lines(engine, &source.path, id, lines, results);
        stored as u64
    }

    /// Puts everything in its place: first the sessions of sub-agents, then the file's own. `false`: it was
    /// overtaken.
    fn publish(
        &mut self,
        engine: &Engine,
        source: &Source,
        replacement: &Replacement,
        others: Vec<String>,
    ) -> Result<bool, ImportError> {
        let name = source.name();
        let (own, sides): (Vec<_>, Vec<_>) = replacement.staged.iter().partition(|staged| staged.side.is_none());
        for staged in sides.into_iter().chain(own) {
            engine.committer.rebuild_session(staged.transcript)?;
            let id = staged.side.as_ref().unwrap_or(&source.session_id);
            if engine.committer.snapshot()?.transcript(id)? != Some(staged.transcript) && staged.side.is_none() {
                self.keep(source, "its session changed at the same time; import it again");
                return Ok(false);
            }
        }
        let row = |session_id: &SessionId, rows: u64| SourceRow {
            session_id: session_id.clone(),
            owns: true,
            offset: replacement.end.offset,
            line: replacement.end.line,
            mark: replacement.mark,
            rows,
            stamp: source.stamp,
        };
        let mut sources = Vec::new();
        for (side, &rows) in &replacement.read {
            sources.push(match side {
                None => continue,
                Some(id) => (side_name(&name, id.as_str()), row(id, rows)),
            });
        }
        sources.push((name.clone(), row(&source.session_id, replacement.read.get(&None).copied().unwrap_or(0))));
        let is_gone = |id: &&SessionId| !replacement.read.contains_key(&Some((*id).clone()));
        let gone = replacement.before.iter().filter(|(id, row)| row.owns && is_gone(id));
        let gone = gone.map(|(id, row)| (side_name(&name, id.as_str()), id.clone(), row.rows)).collect();
        engine.committer.end_replacement(sources, gone, others)?;
        Ok(true)
    }
}

/// What a file says anew.
struct Replacement {
    staged: Vec<Staged>,
    /// What was noted of the sessions of sub-agents in the file.
    before: BTreeMap<SessionId, SourceRow>,
    /// Events that were stored, by session.
    read: BTreeMap<Option<SessionId>, u64>,
    end: Position,
    mark: u64,
}

/// Whether the file can take the place of what is stored: it is whole, and has an event.
fn is_usable(source: &Source) -> Result<bool, import::ImportError> {
    let mut has_event = false;
    for item in import::open(source, None)? {
        match item? {
            Item::Event(event) => has_event |= event.event.kind != EventKind::Header,
            Item::Skipped { .. } | Item::Rejected { .. } => {}
            Item::Torn { .. } => return Ok(false),
        }
    }
    Ok(has_event)
}
