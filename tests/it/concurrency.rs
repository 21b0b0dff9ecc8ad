//! Writers, readers, checkpoints, rebuilds and deletions at once.
//!
//! A batch is seen whole or not at all, and where it is acknowledged and nobody takes it away, whole; what only grows
//! never shrinks before a reader's eyes; nobody waits for ever; and at the end everything is as the plain model says.
//! A few seconds, or as many as `SESSIONS_SEARCH_CONCURRENCY` says.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sessions_search::__internal::faults::Tuning;
use sessions_search::{Engine, OpenOptions, SearchRequest, StoreError};

use crate::disk::{Fault, Loss, Volume};
use crate::model::{
    EVERYWHERE, Expected, Message, Model, Place, Step, StepGenerator, append_lines, do_to, id, now, settle, small,
};
use crate::random::Random;

fn seconds() -> u64 {
    std::env::var("SESSIONS_SEARCH_CONCURRENCY").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

fn open(root: &Path, tuning: &Tuning) -> Result<Engine, StoreError> {
    let mut options = OpenOptions::default();
    options.create = true;
    options.busy_timeout = Duration::from_millis(300);
    options.tuning = tuning.clone();
    Engine::open(root, options)
}

/// Stages of a batch's life, in the order it goes through them.
const WRITING: u8 = 0;
const THERE: u8 = 1;
const GOING: u8 = 2;
const GONE: u8 = 3;

/// Messages of one append, all with a word that no other has.
struct Batch {
    word: String,
    size: usize,
    stage: AtomicU8,
}

/// What all threads share.
struct Shared {
    engine: Engine,
    stop: AtomicBool,
    /// The newest batches.
    batches: Mutex<Vec<Arc<Batch>>>,
    work: AtomicUsize,
}

impl Shared {
    fn goes_on(&self) -> bool {
        self.work.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    fn newest(&self, random: &mut Random) -> Option<Arc<Batch>> {
        let batches = self.batches.lock().unwrap();
        (!batches.is_empty()).then(|| Arc::clone(&batches[random.below(batches.len())]))
    }
}

/// One session of one writer.
struct Conversation {
    session: &'static str,
    messages: Vec<Message>,
    batches: Vec<(usize, Arc<Batch>)>,
    leaves: usize,
    /// Whether the store has the session, be it empty.
    exists: bool,
}

impl Conversation {
    fn new(session: &'static str) -> Self {
        Self { session, messages: Vec::new(), batches: Vec::new(), leaves: 0, exists: false }
    }

    fn append(&mut self, shared: &Shared, random: &mut Random) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let size = 1 + random.below(5);
        let word = format!("batch{number}");
        let messages: Vec<Message> = (0..size)
            .map(|i| {
                let mut message = Message::numbered(number * 10 + i, random);
                message.text.push_str(&format!(" {word} in{}", self.session));
                message
            })
            .collect();
        let batch = Arc::new(Batch { word, size, stage: AtomicU8::new(WRITING) });
        {
            let mut batches = shared.batches.lock().unwrap();
            batches.push(Arc::clone(&batch));
            if batches.len() > 100 {
                batches.remove(0);
            }
        }
        do_to(&shared.engine, &Model::default(), &Step::Append(self.session, messages.clone())).unwrap();
        batch.stage.store(THERE, Ordering::SeqCst);
        self.exists = true;
        self.messages.extend(messages);
        self.batches.push((self.messages.len(), batch));
    }

    /// Takes the last few batches away again.
    fn rewind(&mut self, shared: &Shared, random: &mut Random) {
        let kept = random.below(self.batches.len() + 1).max(self.batches.len().saturating_sub(4));
        let going = self.batches.split_off(kept);
        let len = self.batches.last().map_or(0, |(end, _)| *end);
        for (_, batch) in &going {
            batch.stage.store(GOING, Ordering::SeqCst);
        }
        self.leaves += 1;
        let target = len.checked_sub(1).map(|last| self.messages[last].id.clone());
        let leaf = serde_json::json!({ "type": "leaf", "id": format!("{}-leaf{}", self.session, self.leaves),
            "parentId": self.messages.last().map(|message| message.id.clone()), "targetId": target });
        append_lines(&shared.engine, self.session, vec![leaf.to_string().into_bytes()]).unwrap();
        self.messages.truncate(len);
        for (_, batch) in &going {
            batch.stage.store(GONE, Ordering::SeqCst);
        }
    }

    fn delete(&mut self, shared: &Shared) {
        for (_, batch) in &self.batches {
            batch.stage.store(GOING, Ordering::SeqCst);
        }
        shared.engine.delete_session(&id(self.session), now()).unwrap();
        for (_, batch) in self.batches.drain(..) {
            batch.stage.store(GONE, Ordering::SeqCst);
        }
        self.messages.clear();
        self.exists = false;
    }
}

/// Appends to two sessions, rewinds and deletes one of them.
fn write(shared: &Shared, growing: &'static str, changing: &'static str, seed: u64) -> Vec<Conversation> {
    let mut random = Random::new(seed);
    let mut conversations = [Conversation::new(growing), Conversation::new(changing)];
    while shared.goes_on() {
        conversations[random.below(2)].append(shared, &mut random);
        let changing = &mut conversations[1];
        if changing.messages.is_empty() {
            continue;
        }
        match random.below(12) {
            0 | 1 => changing.rewind(shared, &mut random),
            2 if random.below(4) == 0 => changing.delete(shared),
            _ => {}
        }
    }
    conversations.into()
}

/// Searches, and checks what one search and one reader may see. Gives how long each search took.
fn read(shared: &Shared, growing: &[&str], seed: u64) -> Vec<Duration> {
    let mut random = Random::new(seed);
    let mut seen = vec![0; growing.len()];
    let mut took = Vec::new();
    while shared.goes_on() {
        if let Some(batch) = shared.newest(&mut random) {
            let before = batch.stage.load(Ordering::SeqCst);
            let started = Instant::now();
            let mut request = SearchRequest::new(batch.word.as_str());
            request.limit = 100;
            let answer = shared.engine.search(&request).unwrap();
            took.push(started.elapsed());
            let after = batch.stage.load(Ordering::SeqCst);
            let found = answer.results.len();
            let what = format!("{}: {found} of {} found, {before} to {after}", batch.word, batch.size);
            assert!(found == 0 || found == batch.size, "a torn batch: {what}");
            assert!(found == 0 || before < GONE, "a ghost: {what}");
            // Hidden while its session is rebuilt, and the answer says so.
            assert!(found == batch.size || answer.indexing || (before, after) != (THERE, THERE), "missing: {what}");
        }
        let which = random.below(growing.len());
        let mut request = SearchRequest::new(format!("in{}", growing[which]));
        request.limit = 10_000;
        let found = shared.engine.search(&request).unwrap().results.len();
        assert!(found >= seen[which], "{} shrank from {} to {found}", growing[which], seen[which]);
        seen[which] = found;
    }
    took
}

#[test]
fn writers_readers_and_the_background_agree_at_every_moment() {
    let folder = tempfile::tempdir().unwrap();
    let tuning = Tuning {
        checkpoint_documents: 200,
        idle: Duration::from_millis(20),
        idle_checkpoint_documents: 1,
        sync_resolve_events: 150,
        session_batch_rows: 32,
        merge_segments: 3,
        max_replay_documents: 100_000,
        ..Tuning::default()
    };
    let shared = Arc::new(Shared {
        engine: open(folder.path(), &tuning).unwrap(),
        stop: AtomicBool::new(false),
        batches: Mutex::default(),
        work: AtomicUsize::new(0),
    });
    let growing = ["grow1", "grow2", "grow3"];
    let changing = ["change1", "change2", "change3"];
    let writers: Vec<_> = (0..3)
        .map(|i| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || write(&shared, growing[i], changing[i], 100 + i as u64))
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|i| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || read(&shared, &growing, 200 + i))
        })
        .collect();
    let checkpoints = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            while shared.goes_on() {
                shared.engine.checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }
        })
    };

    let ends = Instant::now() + Duration::from_secs(seconds());
    let mut work = 0;
    while Instant::now() < ends {
        std::thread::sleep(Duration::from_millis(500));
        let failed = writers.iter().any(|t| t.is_finished()) || readers.iter().any(|t| t.is_finished());
        if failed {
            break;
        }
        let now = shared.work.load(Ordering::Relaxed);
        // On a busy machine half a second may pass without any; not ten.
        if now == work {
            std::thread::sleep(Duration::from_secs(10));
            assert_ne!(shared.work.load(Ordering::Relaxed), work, "nobody gets on");
        }
        work = now;
    }
    shared.stop.store(true, Ordering::Relaxed);
    let conversations: Vec<_> = writers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let mut took: Vec<_> = readers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    checkpoints.join().unwrap();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];

    let existing = conversations.into_iter().filter(|conversation| conversation.exists);
    let model = Model { sessions: existing.map(|c| (c.session, c.messages)).collect() };
    let expected = Expected::of(model);
    settle(&shared.engine, std::slice::from_ref(&expected)).unwrap();
    eprintln!(
        "{} searches, p99 {p99:?}, {} messages at the end, {} rounds of all threads",
        took.len(),
        expected.model.num_messages(),
        shared.work.load(Ordering::Relaxed)
    );
    assert!(p99 < Duration::from_secs(2), "{p99:?}");
    drop(shared);
    settle(&open(folder.path(), &tuning).unwrap(), &[expected]).unwrap();
}

#[test]
fn r21_a_hidden_session_is_rebuilt_while_others_write_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let tuning = Tuning { sync_resolve_events: 400, session_batch_rows: 64, ..Tuning::default() };
    let engine = Arc::new(open(folder.path(), &tuning).unwrap());
    let mut make = StepGenerator::new(17);
    let mut model = Model::default();
    for _ in 0..10 {
        let step = make.append("a", 100);
        do_to(&engine, &model, &step).unwrap();
        model = model.after(&step);
    }
    let rewind = make.note(Step::Rewind("a", 900));
    do_to(&engine, &model, &rewind).unwrap();
    model = model.after(&rewind);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = ["a", "b"]
        .into_iter()
        .enumerate()
        .map(|(i, session)| {
            let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut random = Random::new(i as u64);
                let mut steps = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let message = Message::numbered(10_000 * (i + 1) + steps.len(), &mut random);
                    let step = Step::Append(session, vec![message]);
                    do_to(&engine, &Model::default(), &step).unwrap();
                    steps.push(step);
                }
                steps
            })
        })
        .collect();
    let (mut flagged, mut slowest) = (0, Duration::ZERO);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let started = Instant::now();
        let answer = engine.search(&SearchRequest::new(EVERYWHERE)).unwrap();
        slowest = slowest.max(started.elapsed());
        if !answer.indexing {
            break;
        }
        flagged += 1;
        assert!(Instant::now() < deadline, "the rebuild does not end while others write");
    }
    // Nobody has stopped to let it end.
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    stop.store(true, Ordering::Relaxed);
    for step in writers.into_iter().flat_map(|writer| writer.join().unwrap()) {
        model = model.after(&step);
    }
    assert!(flagged > 0 && slowest < Duration::from_secs(2), "{flagged} flagged, slowest {slowest:?}");
    settle(&engine, &[Expected::of(model)]).unwrap();
}

#[test]
fn a_second_engine_waits_for_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path(), &small()).unwrap();
    let started = Instant::now();
    match open(folder.path(), &small()) {
        Err(StoreError::Busy { .. }) => {}
        other => panic!("{other:?}"),
    }
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_secs(3), "{waited:?}");
    drop(first);
    open(folder.path(), &small()).unwrap();
}

#[test]
fn two_that_make_the_same_store_make_one() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let makers: Vec<_> = (0..4)
            .map(|i| {
                let root = folder.path().to_owned();
                std::thread::spawn(move || {
                    let mut options = OpenOptions::default();
                    options.create = true;
                    options.busy_timeout = Duration::from_secs(20);
                    let engine = Engine::open(&root, options).unwrap();
                    let session = ["a", "b", "c", "d"][i];
                    let line = Message::new("m", "otter").line(false);
                    append_lines(&engine, session, vec![line]).unwrap();
                })
            })
            .collect();
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        let engine = open(folder.path(), &small()).unwrap();
        assert_eq!(engine.search(&SearchRequest::new("otter")).unwrap().results.len(), 4);
    }
}

#[test]
fn an_engine_that_goes_during_a_merge_changes_nothing_afterwards() {
    let tuning = Tuning { checkpoint_documents: 3, idle_checkpoint_documents: 1_000, ..small() };
    let mut make = StepGenerator::new(50);
    let steps: Vec<Step> = (0..4).map(|_| make.append("a", 3)).collect();
    let more = make.append("b", 2);
    for round in 0..6 {
        let place = Place::new(Volume::new(), &tuning);
        place.disk.record();
        let engine = place.open().unwrap();
        let mut model = Model::default();
        for step in &steps {
            do_to(&engine, &model, step).unwrap();
            model = model.after(step);
        }
        // Merges run, and every write of theirs takes its time.
        place.disk.slow_down("/index/", Duration::from_millis(3));
        std::thread::sleep(Duration::from_millis(round * 7));
        drop(engine);
        let changes = place.disk.recorded();
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(place.disk.recorded(), changes, "something is changed after the engine is gone");

        let engine = place.open().unwrap();
        do_to(&engine, &model, &more).unwrap();
        let expected = [Expected::of(model.after(&more))];
        settle(&engine, &expected).unwrap();
        engine.checkpoint().unwrap();
        drop(engine);
        settle(&place.open().unwrap(), &expected).unwrap();
    }
}

#[test]
fn many_at_once_on_a_disk_that_fails_now_and_then_lose_nothing() {
    let tuning = Tuning {
        checkpoint_documents: 30,
        idle: Duration::from_millis(5),
        idle_checkpoint_documents: 1,
        sync_resolve_events: 60,
        session_batch_rows: 16,
        max_replay_documents: 200,
        ..small()
    };
    let place = Place::new(Volume::new(), &tuning);
    let engine = Arc::new(place.open().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let sessions = ["a", "b", "c"];
    let writers: Vec<_> = sessions
        .into_iter()
        .enumerate()
        .map(|(i, session)| {
            let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut random = Random::new(i as u64);
                let mut model = Model::default();
                let mut failures = 0;
                for number in 0.. {
                    let ends = stop.load(Ordering::Relaxed);
                    let messages = model.sessions.get(session).map_or(0, Vec::len);
                    let step = if number % 25 == 24 {
                        Step::Rewind(session, messages - messages.min(random.below(8)))
                    } else {
                        let message = |n| Message::numbered(100_000 * (i + 1) + number * 10 + n, &mut random);
                        Step::Append(session, (0..1 + number % 3).map(message).collect())
                    };
                    // What failed may be stored: the same ids again do no harm.
                    while do_to(&engine, &model, &step).is_err() {
                        failures += 1;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    model = model.after(&step);
                    if ends {
                        break;
                    }
                }
                (model, failures)
            })
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
            std::thread::spawn(move || {
                let (mut answers, mut failures) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    match engine.search(&SearchRequest::new(EVERYWHERE)) {
                        Ok(_) => answers += 1,
                        Err(_) => failures += 1,
                    }
                }
                (answers, failures)
            })
        })
        .collect();
    let mut random = Random::new(31);
    let ends = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < ends {
        let fault = [Fault::Broken, Fault::NoSpace][random.below(2)];
        place.disk.fail_within(
            ["", "transcripts", "/index"][random.below(3)],
            fault,
            random.below(60),
            1 + random.below(3),
        );
        std::thread::sleep(Duration::from_millis(random.below(30) as u64));
    }
    place.disk.mend();
    stop.store(true, Ordering::Relaxed);
    let (mut model, mut failures) = (Model::default(), 0);
    for writer in writers {
        let (theirs, failed) = writer.join().unwrap();
        model.sessions.extend(theirs.sessions);
        failures += failed;
    }
    let read: Vec<(usize, usize)> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    eprintln!("{} messages, {failures} failed writes, answers and failed searches {read:?}", model.num_messages());
    assert!(failures > 0 && read.iter().all(|(answers, _)| *answers > 0));
    let expected = [Expected::of(model)];
    settle(&engine, &expected).unwrap();
    drop(engine);
    let image = place.disk.volume().after_power_cut(Loss::All, &mut random);
    settle(&Place::new(image, &tuning).open().unwrap(), &expected).unwrap();
}
