//! Stores of several agents under one root, filled from short descriptions.

use std::collections::BTreeMap;

use sessions_search::{
    AgentId, AppendRequest, Engine, OpenOptions, SessionFacts, SessionId, SessionKey, Stores, Timestamp,
};

pub const NOW: i64 = 1_785_000_000_000;

/// One session with its messages.
#[derive(Clone, Debug)]
pub struct Session {
    pub agent: String,
    pub key: String,
    pub id: String,
    pub facts: SessionFacts,
    /// Id, role, time, text.
    pub messages: Vec<(String, &'static str, i64, String)>,
}

impl Session {
    /// A session with one user message a text, `<id>-0`, `<id>-1`, …
    pub fn new(agent: &str, key: &str, id: &str, texts: &[&str]) -> Self {
        let messages = texts
            .iter()
            .enumerate()
            .map(|(n, text)| (format!("{id}-{n}"), "user", NOW + i64::try_from(n).unwrap(), (*text).to_owned()))
            .collect();
        Self { agent: agent.into(), key: key.into(), id: id.into(), facts: SessionFacts::default(), messages }
    }

    pub fn spawned_by(mut self, key: &str) -> Self {
        self.facts.spawned_by = Some(SessionKey::parse(key).unwrap());
        self
    }

    pub fn archived(mut self) -> Self {
        self.facts.archived = true;
        self
    }

    pub fn labelled(mut self, label: &str) -> Self {
        self.facts.label = Some(label.into());
        self
    }
}

/// A root folder that goes away with it.
pub struct World {
    pub root: tempfile::TempDir,
}

impl World {
    pub fn new(sessions: &[Session]) -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        world.add(sessions);
        world
    }

    /// Stores the sessions in the order given; each agent's store is opened once.
    pub fn add(&self, sessions: &[Session]) {
        let mut by_agent: BTreeMap<&str, Vec<&Session>> = BTreeMap::new();
        for session in sessions {
            by_agent.entry(&session.agent).or_default().push(session);
        }
        for (agent, sessions) in by_agent {
            let engine = self.engine(agent);
            for session in sessions {
                let lines = session.messages.iter().map(|(id, role, at, text)| {
                    serde_json::json!({ "type": "message", "id": id, "timestamp": at,
                        "message": { "role": role, "content": text } })
                    .to_string()
                    .into_bytes()
                });
                let mut request = AppendRequest::new(SessionKey::parse(&session.key).unwrap(), lines.collect());
                request.session_id = Some(SessionId::parse(&session.id).unwrap());
                request.facts = session.facts.clone();
                for result in engine.append(request, Timestamp::from_millis(NOW).unwrap()).unwrap() {
                    result.unwrap();
                }
            }
            engine.close().unwrap();
        }
    }

    pub fn engine(&self, agent: &str) -> Engine {
        let mut options = OpenOptions::default();
        options.agent = AgentId::parse(agent).unwrap();
        options.create = true;
        Engine::open(self.root.path(), options).unwrap()
    }

    /// The folder, and its stores.
    pub fn stores_kept(self) -> (Self, Stores) {
        let stores = self.stores();
        (self, stores)
    }

    pub fn stores(&self) -> Stores {
        Stores::new(self.root.path(), OpenOptions::default())
    }
}
