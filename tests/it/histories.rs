//! Random histories of a store against the plainest model there is: lists of rows, the tree rules of contract §3 as
//! `tree` writes them down, the words of a message looked for one by one.
//!
//! proptest makes the histories, for it makes a failing one short: a dozen steps become the three that matter. Steps name
//! what they concern by small numbers that are read against the model of the moment, so that a history stays one when
//! steps are left out. 2,000 histories a run, half of them with each analyzer, always the same; `SESSIONS_SEARCH_HISTORIES=<n>` runs n, from `_SEED` on.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sessions_search::__internal::faults::Tuning;
use sessions_search::__internal::{Event, MessageId, Parent, TreeNode, TreeRow};
use sessions_search::{
    AppendRequest, DeleteError, Deleted, Engine, ListRequest, RekeyError, RekeyRefusal, ReplaceError, SearchRequest,
};

use crate::disk::Volume;
use crate::model::{Place, id, key, now, small};
use crate::tree::Naive;

const SESSIONS: [&str; 3] = ["s0", "s1", "s2"];
const KEYS: [&str; 3] = ["k0", "k1", "k2"];
const WORDS: [&str; 4] = ["otter", "river", "会议", "stone"];
const ANALYZERS: [&str; 2] = ["unicode-word", "cjk"];

/// A row to be stored.
#[derive(Debug, Clone)]
struct NewRow {
    kind: u8,
    /// What stands above it: nothing is said, the root, nobody, the last row, or any row.
    up: u8,
    /// For a control: the new leaf, and where the next row goes if that is elsewhere.
    target: u8,
    append: Option<u8>,
    words: u8,
}

#[derive(Debug, Clone)]
enum Op {
    Append {
        session: usize,
        rows: Vec<NewRow>,
    },
    /// Rows that are kept, as bits, and new ones after them.
    Replace {
        session: usize,
        kept: u16,
        rows: Vec<NewRow>,
    },
    /// A line that is stored already.
    Again {
        session: usize,
        which: u8,
    },
    Delete {
        session: usize,
    },
    DeleteKey {
        key: usize,
    },
    Rekey {
        from: usize,
        to: usize,
    },
    Archive {
        key: usize,
        archived: bool,
    },
    Checkpoint,
    Compact,
    Reopen {
        in_order: bool,
    },
    Wait,
    Search {
        word: usize,
    },
}

fn new_row() -> impl Strategy<Value = NewRow> {
    (0..20_u8, 0..32_u8, 0..32_u8, proptest::option::weighted(0.3, 0..32_u8), 0..16_u8)
        .prop_map(|(kind, up, target, append, words)| NewRow { kind, up, target, append, words })
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    let key = 0..KEYS.len();
    let rows = proptest::collection::vec(new_row(), 1..5);
    prop_oneof![
        10 => (session.clone(), rows).prop_map(|(session, rows)| Op::Append { session, rows }),
        2 => (session.clone(), any::<u16>(), proptest::collection::vec(new_row(), 0..4))
            .prop_map(|(session, kept, rows)| Op::Replace { session, kept, rows }),
        1 => (session.clone(), any::<u8>()).prop_map(|(session, which)| Op::Again { session, which }),
        1 => session.prop_map(|session| Op::Delete { session }),
        1 => key.clone().prop_map(|key| Op::DeleteKey { key }),
        1 => (key.clone(), key.clone()).prop_map(|(from, to)| Op::Rekey { from, to }),
        1 => (key, any::<bool>()).prop_map(|(key, archived)| Op::Archive { key, archived }),
        3 => Just(Op::Checkpoint),
        1 => Just(Op::Compact),
        2 => any::<bool>().prop_map(|in_order| Op::Reopen { in_order }),
        1 => Just(Op::Wait),
        3 => (0..WORDS.len()).prop_map(|word| Op::Search { word }),
    ]
}

/// A stored row.
#[derive(Debug, Clone)]
struct Row {
    line: String,
    tree: TreeRow,
    /// Where it can be found: its id and its words.
    searchable: Option<(String, String)>,
}

#[derive(Debug, Clone, Default)]
struct Session {
    key: usize,
    archived: bool,
    rows: Vec<Row>,
}

impl Session {
    fn tree(&self) -> Vec<TreeRow> {
        self.rows.iter().map(|row| row.tree.clone()).collect()
    }

    /// The messages on the active path.
    fn active(&self) -> Vec<(&str, &str)> {
        let path = Naive::path(&self.tree()).0;
        let rows = path.into_iter().filter_map(|seq| self.rows[seq as usize].searchable.as_ref());
        rows.map(|(id, text)| (id.as_str(), text.as_str())).collect()
    }

    /// The id a number stands for: of a row that is there, the last one often, or of none.
    fn named(&self, number: u8) -> Option<String> {
        let ids: Vec<&MessageId> = self.rows.iter().filter_map(|row| row.tree.id()).collect();
        match number {
            0 | 1 => None,
            2 => Some("nobody".into()),
            3..=20 => ids.last().map(|id| id.as_str().to_owned()),
            any => (!ids.is_empty()).then(|| ids[usize::from(any) % ids.len()].as_str().to_owned()),
        }
    }

    /// The line of a new row with this id.
    fn line(&self, id: &str, row: &NewRow) -> String {
        let mut line = serde_json::json!({ "id": id, "timestamp": 1_785_000_000_000_i64 });
        let (kind, role) = match row.kind {
            0..=7 => ("message", "user"),
            8..=10 => ("message", "assistant"),
            11 => ("message", "toolResult"),
            12 | 13 => ("message", "user"),
            14..=16 => ("leaf", ""),
            17 => ("reset", ""),
            18 => ("compaction", ""),
            _ => ("some.plugin", ""),
        };
        line["type"] = kind.into();
        if kind == "message" {
            let chosen = WORDS[1..].iter().enumerate().filter(|(i, _)| row.words >> i & 1 == 1);
            let words = chosen.fold(WORDS[0].to_owned(), |text, (_, word)| text + " " + word);
            line["message"] = serde_json::json!({ "role": role, "content": words });
        }
        if matches!(row.kind, 12 | 13) {
            line["appendMode"] = "side".into();
        }
        if kind == "leaf" {
            line["targetId"] = self.named(row.target).into();
            if let Some(append) = row.append {
                line["appendParentId"] = self.named(append).into();
            }
        }
        // Most rows say nothing of a parent or name the last one; a control has to name one.
        if row.up >= 4 || row.up == 1 || kind != "message" {
            line["parentId"] = self.named(row.up).into();
        }
        line.to_string()
    }

    /// Stores a line. With `rebase` a message that names a row which is neither leaf nor cursor goes below the
    /// cursor (D20).
    fn store(&mut self, line: String, rebase: bool) {
        let event = Event::parse(line.as_bytes()).unwrap();
        let mut tree = TreeRow::of(&event, None);
        if let TreeNode::Entry { parent: Some(Parent::Below(named)), side: false, .. } = &tree.node
            && rebase
            && tree.is_message
            && self.rows.iter().any(|row| row.tree.id() == Some(named))
        {
            let scan = Naive::path(&self.tree()).1;
            if scan.leaf.as_ref() != Some(named) && scan.cursor.as_ref() != Some(named) {
                tree = TreeRow::of(&event, Some(&Parent::from(scan.cursor)));
            }
        }
        let searchable = event.searchable().map(|(id, _)| {
            let said: serde_json::Value = serde_json::from_str(&line).unwrap();
            (id.as_str().to_owned(), said["message"]["content"].as_str().unwrap().to_owned())
        });
        self.rows.push(Row { line, tree, searchable });
    }
}

#[derive(Debug, Clone, Default)]
struct Store {
    sessions: BTreeMap<usize, Session>,
    next_id: usize,
}

/// Session, key, message: what a search shows of a hit.
type Found = (String, String, String);

impl Store {
    fn windows(&self, key: usize) -> Vec<usize> {
        self.sessions.iter().filter(|(_, session)| session.key == key).map(|(id, _)| *id).collect()
    }

    fn lines(&mut self, session: &mut Session, rows: &[NewRow], rebase: bool) -> Vec<String> {
        let store = |row: &NewRow| {
            self.next_id += 1;
            let line = session.line(&format!("m{}", self.next_id), row);
            session.store(line.clone(), rebase);
            line
        };
        rows.iter().map(store).collect()
    }

    fn find(&self, word: &str) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for (number, session) in &self.sessions {
            let hits = session.active().into_iter().filter(|(_, text)| text.split(' ').any(|w| w == word));
            found.extend(hits.map(|(message, _)| {
                (SESSIONS[*number].to_owned(), key(KEYS[session.key]).as_str().to_owned(), message.to_owned())
            }));
        }
        found.sort();
        found
    }
}

/// A store and its model, side by side.
struct Pair {
    place: Place,
    engine: Option<Engine>,
    model: Store,
}

/// What a step found different.
type Difference = Result<(), String>;

impl Pair {
    fn new(analyzer: usize) -> Self {
        // Making a store takes longer than all that is done to it.
        static EMPTY: LazyLock<[Volume; 2]> = LazyLock::new(|| {
            ANALYZERS.map(|analyzer| {
                let mut place = Place::new(Volume::new(), &small());
                place.analyzer = analyzer;
                drop(place.open().unwrap());
                place.disk.volume()
            })
        });
        let tuning = Tuning { sync_resolve_events: 10, max_replay_documents: 12, ..small() };
        let place = Place::new(EMPTY[analyzer].clone(), &tuning);
        let engine = Some(place.open().unwrap());
        Self { place, engine, model: Store::default() }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn take(&mut self, op: &Op) -> Difference {
        match op {
            Op::Append { session, rows } => self.append(*session, rows),
            Op::Replace { session, kept, rows } => self.replace(*session, *kept, rows),
            Op::Again { session, which } => self.again(*session, *which),
            Op::Delete { session } => {
                let known = self.model.sessions.remove(session).is_some();
                deleted(self.engine().delete_session(&id(SESSIONS[*session]), now()), known)
            }
            Op::DeleteKey { key: number } => {
                let windows = self.model.windows(*number);
                windows.iter().for_each(|window| drop(self.model.sessions.remove(window)));
                deleted(self.engine().delete_key(&key(KEYS[*number]), now()), !windows.is_empty())
            }
            Op::Rekey { from, to } => self.rekey(*from, *to),
            Op::Archive { key: number, archived } => {
                let windows = self.model.windows(*number);
                let outcome = self.engine().set_archived(&key(KEYS[*number]), *archived);
                for window in &windows {
                    self.model.sessions.get_mut(window).unwrap().archived = *archived;
                }
                match outcome {
                    Ok(n) if n == windows.len() as u64 && n > 0 => Ok(()),
                    Err(RekeyError::Refused(RekeyRefusal::UnknownKey { .. })) if windows.is_empty() => Ok(()),
                    other => Err(format!("archiving {windows:?}: {other:?}")),
                }
            }
            Op::Checkpoint => self.engine().checkpoint().map_err(|error| error.to_string()),
            Op::Compact => {
                self.engine().compact().map_err(|error| error.to_string())?;
                self.search(WORDS[0])
            }
            Op::Reopen { in_order } => {
                let engine = self.engine.take().unwrap();
                if *in_order {
                    engine.close().map_err(|error| error.to_string())?;
                } else {
                    drop(engine);
                }
                self.engine = Some(self.place.open().map_err(|error| error.to_string())?);
                self.search(WORDS[0])
            }
            Op::Wait => self.wait(),
            Op::Search { word } => self.search(WORDS[*word]),
        }
    }

    fn append(&mut self, number: usize, rows: &[NewRow]) -> Difference {
        let known = self.model.sessions.remove(&number);
        let mut session = known.unwrap_or_else(|| Session { key: number % 2, ..Session::default() });
        let first = session.rows.len();
        let lines = self.model.lines(&mut session, rows, true);
        let mut request =
            AppendRequest::new(key(KEYS[session.key]), lines.into_iter().map(String::into_bytes).collect());
        request.session_id = Some(id(SESSIONS[number]));
        let places = self.engine().append(request, now()).map_err(|error| error.to_string())?;
        let active: Vec<String> = session.active().into_iter().map(|(id, _)| id.to_owned()).collect();
        for (i, place) in places.iter().enumerate() {
            let place = place.as_ref().map_err(ToString::to_string)?;
            let is_active = place.message_id.as_ref().is_some_and(|id| active.iter().any(|on| on == id.as_str()));
            if place.seq != (first + i) as u64 || place.indexed && !is_active {
                return Err(format!("row {} of {}: {place:?}", first + i, SESSIONS[number]));
            }
        }
        self.model.sessions.insert(number, session);
        self.search(WORDS[0])
    }

    fn replace(&mut self, number: usize, kept: u16, rows: &[NewRow]) -> Difference {
        let Some(old) = self.model.sessions.get(&number).cloned() else {
            return match self.engine().replace(&id(SESSIONS[number]), Vec::new(), now()) {
                Err(ReplaceError::UnknownSession { .. }) => Ok(()),
                other => Err(format!("replacing what is not there: {other:?}")),
            };
        };
        let mut new = Session { rows: Vec::new(), ..old.clone() };
        // A row that was rebased is exported with the parent it got; here it says what it was given.
        let left = old.rows.iter().enumerate().filter(|(i, _)| kept >> (i % 16) & 1 == 1);
        let mut lines: Vec<String> = left.map(|(_, row)| row.line.clone()).collect();
        lines.iter().for_each(|line| new.store(line.clone(), false));
        lines.extend(self.model.lines(&mut new, rows, false));
        let lines = lines.into_iter().map(String::into_bytes).collect();
        let places = self.engine().replace(&id(SESSIONS[number]), lines, now()).map_err(|error| error.to_string())?;
        if places.len() != new.rows.len() {
            return Err(format!("{} places for {} rows", places.len(), new.rows.len()));
        }
        self.model.sessions.insert(number, new);
        self.search(WORDS[0])
    }

    fn again(&mut self, number: usize, which: u8) -> Difference {
        let Some(session) = self.model.sessions.get(&number).filter(|session| !session.rows.is_empty()) else {
            return Ok(());
        };
        let seq = usize::from(which) % session.rows.len();
        let lines = vec![session.rows[seq].line.clone().into_bytes()];
        let mut request = AppendRequest::new(key(KEYS[session.key]), lines);
        request.session_id = Some(id(SESSIONS[number]));
        match self.engine().append(request, now()).map_err(|error| error.to_string())?.as_slice() {
            [Ok(place)] if place.seq == seq as u64 => Ok(()),
            other => Err(format!("row {seq} again: {other:?}")),
        }
    }

    fn rekey(&mut self, from: usize, to: usize) -> Difference {
        let (windows, taken) = (self.model.windows(from), !self.model.windows(to).is_empty());
        match self.engine().rekey(&key(KEYS[from]), &key(KEYS[to])) {
            Ok(n) if n > 0 && n == windows.len() as u64 && (from == to || !taken) => {
                windows.iter().for_each(|window| self.model.sessions.get_mut(window).unwrap().key = to);
                self.search(WORDS[0])
            }
            Err(RekeyError::Refused(RekeyRefusal::UnknownKey { .. })) if windows.is_empty() => Ok(()),
            Err(RekeyError::Refused(RekeyRefusal::Taken { .. })) if !windows.is_empty() && taken && from != to => {
                Ok(())
            }
            other => Err(format!("{} to {}: {other:?}, {windows:?}, taken {taken}", KEYS[from], KEYS[to])),
        }
    }

    /// What is found now: all of it, or where the answer says `indexing`, nothing else.
    fn search(&self, word: &str) -> Difference {
        let mut request = SearchRequest::new(word);
        request.limit = 1_000;
        let answer = self.engine().search(&request).map_err(|error| error.to_string())?;
        let hits = answer.results.iter().map(|hit| {
            let session = hit.session_id.as_str().to_owned();
            (session, hit.session_key.as_str().to_owned(), hit.message_id.as_str().to_owned())
        });
        let mut found: Vec<Found> = hits.collect();
        found.sort();
        let expected = self.model.find(word);
        let right = if answer.indexing { found.iter().all(|hit| expected.contains(hit)) } else { found == expected };
        if right { Ok(()) } else { Err(format!("{word} (indexing {}): {found:?}, not {expected:?}", answer.indexing)) }
    }

    fn wait(&self) -> Difference {
        if !self.engine().wait_for_indexing(Duration::from_secs(60)) {
            return Err("indexing does not end".into());
        }
        let answer = self.engine().search(&SearchRequest::new(WORDS[0])).map_err(|error| error.to_string())?;
        if answer.indexing {
            return Err("still indexing".into());
        }
        WORDS.iter().try_for_each(|word| self.search(word))?;
        let status = self.engine().status().map_err(|error| error.to_string())?;
        let sessions = &self.model.sessions;
        let documents: usize = sessions.values().map(|session| session.active().len()).sum();
        let events: usize = sessions.values().map(|session| session.rows.len()).sum();
        let counts = (status.sessions, status.documents, status.events);
        if counts != (sessions.len() as u64, documents as u64, events as u64) {
            return Err(format!("status says {counts:?}, not {:?}", (sessions.len(), documents, events)));
        }
        let listed = self.engine().sessions(&ListRequest::default()).map_err(|error| error.to_string())?.sessions;
        let shown = sessions.values().filter(|session| !session.archived).count();
        if listed.len() != shown {
            return Err(format!("{} sessions listed, not {shown}", listed.len()));
        }
        Ok(())
    }
}

impl Pair {
    fn end(mut self) -> Difference {
        self.wait()?;
        drop(self.engine.take());
        self.place.verify(true)
    }
}

fn deleted(outcome: Result<Deleted, DeleteError>, known: bool) -> Difference {
    match outcome {
        Ok(_) if known => Ok(()),
        Err(DeleteError::UnknownSession { .. }) if !known => Ok(()),
        other => Err(format!("deleting: {other:?}, known {known}")),
    }
}

fn run(part: u8) {
    let wanted: u32 = std::env::var("SESSIONS_SEARCH_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let seed: u8 = std::env::var("SESSIONS_SEARCH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let config = Config { cases: wanted.div_ceil(4), failure_persistence: None, ..Config::default() };
    let mut bytes = [seed; 32];
    bytes[0] = part;
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&proptest::collection::vec(op(), 1..24), |ops| {
        let mut pair = Pair::new(usize::from(part) % ANALYZERS.len());
        for (i, op) in ops.iter().enumerate() {
            pair.take(op).map_err(|difference| TestCaseError::fail(format!("step {i}: {difference}")))?;
        }
        let analyzer = pair.engine().status().unwrap().analyzer;
        assert_eq!(analyzer, ANALYZERS[usize::from(part) % ANALYZERS.len()]);
        pair.end().map_err(|difference| TestCaseError::fail(format!("at the end: {difference}")))
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, ops)) => panic!("{reason}\n{ops:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[test]
fn random_histories_first_quarter() {
    run(0);
}

#[test]
fn random_histories_second_quarter() {
    run(1);
}

#[test]
fn random_histories_third_quarter() {
    run(2);
}

#[test]
fn random_histories_fourth_quarter() {
    run(3);
}
