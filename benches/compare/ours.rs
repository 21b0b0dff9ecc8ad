//! sessions-search.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessions_search::{
    AppendRequest, Durability, Engine, ImportOptions, OpenOptions, ReindexRequest, SearchRequest, SessionId,
    SessionKey, Timestamp,
};

use crate::backend::{Acknowledge, Backend, Bytes, Hit, LIMIT, Query, Reader};
use crate::corpus::{Message, key_of};

pub struct Ours(Engine);

/// Opens or makes the store in a folder.
pub fn open(folder: &Path, acknowledge: Acknowledge) -> Box<dyn Backend> {
    let mut options = OpenOptions::default();
    options.create = true;
    options.durability = match acknowledge {
        Acknowledge::OnDisk => Durability::Durable,
        Acknowledge::Soon => Durability::Relaxed,
    };
    Box::new(Ours(Engine::open(folder, options).unwrap()))
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).unwrap()
}

fn size_of(path: &Path) -> u64 {
    let Ok(meta) = fs::metadata(path) else { return 0 };
    if meta.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| size_of(&entry.unwrap().path())).sum()
    } else {
        meta.len()
    }
}

impl Backend for Ours {
    fn import(&self, files: &Path, messages: &[Message]) {
        let files: Vec<PathBuf> = vec![files.to_owned()];
        let summary = self.0.import(&files, &ImportOptions::default(), now(), &mut |_| {}).unwrap();
        assert_eq!(summary.messages, messages.len() as u64);
    }

    fn append(&self, message: &Message) {
        let key = SessionKey::parse(&key_of(&message.session)).unwrap();
        let mut request = AppendRequest::new(key, vec![message.line().into_bytes()]);
        request.session_id = Some(SessionId::parse(&message.session).unwrap());
        for result in self.0.append(request, Timestamp::from_millis(message.timestamp).unwrap()).unwrap() {
            result.unwrap();
        }
    }

    fn search(&self, query: &Query, keys: Option<&[String]>) -> Vec<Hit> {
        let mut request = SearchRequest::new(&query.words);
        request.limit = LIMIT;
        request.session_keys = keys.map(<[String]>::to_vec);
        request.prefix = query.prefix;
        request.fts5_strict = true;
        request.excerpt_utf16 = None;
        let answer = self.0.search(&request).unwrap();
        let hit = |hit: sessions_search::Hit| Hit {
            message_id: hit.message_id.as_str().to_owned(),
            session_key: hit.session_key.as_str().to_owned(),
            score: hit.score,
            excerpt: hit.snippet,
        };
        answer.results.into_iter().map(hit).collect()
    }

    fn delete_session(&self, session: &str) {
        self.0.delete_session(&SessionId::parse(session).unwrap(), now()).unwrap();
    }

    fn replace_session(&self, session: &str, messages: &[&Message]) {
        let lines = messages.iter().map(|message| message.line().into_bytes()).collect();
        self.0.replace(&SessionId::parse(session).unwrap(), lines, now()).unwrap();
    }

    fn rebuild(&self) {
        self.0.reindex(&ReindexRequest::default()).unwrap();
        assert!(self.0.wait_for_indexing(Duration::from_secs(3_600)));
    }

    fn settle(&self) {
        self.0.checkpoint().unwrap();
    }

    fn reader(&self) -> Reader<'_> {
        Box::new(|query| self.search(query, None))
    }

    fn bytes(&self) -> Bytes {
        let folder = self.0.folder();
        Bytes { index: size_of(&folder.join("index")), whole: size_of(&folder) }
    }

    fn close(self: Box<Self>) {
        self.0.close().unwrap();
    }
}
