//! The benches' corpora: generated, the same on every machine, or read from a folder of public texts.

#![allow(dead_code, reason = "each bench uses a part")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// SplitMix64: the same corpus on every machine.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().max(1e-12).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// One message.
pub struct Message {
    pub session: String,
    pub id: String,
    pub role: &'static str,
    pub timestamp: i64,
    pub text: String,
}

impl Message {
    /// The same said again.
    pub fn renamed(&self, id: String, timestamp: i64) -> Self {
        Self { session: self.session.clone(), id, role: self.role, timestamp, text: self.text.clone() }
    }

    /// Its line in OpenClaw's shape.
    pub fn line(&self) -> String {
        serde_json::json!({ "type": "message", "id": self.id, "parentId": null, "timestamp": self.timestamp,
            "message": { "role": self.role, "content": [{ "type": "text", "text": self.text }] } })
        .to_string()
        .replacen("\"parentId\":null,", "", 1)
    }
}

/// Zipf words, log-normal lengths (median 40, mean about 120 words, at most 4,000), hyphenated pairs, ids, a share of
/// other scripts; `common` stands in 30 % of the messages, `percent` in 1 %, `rare` in 20 of them.
pub struct Corpus {
    random: Random,
    pub vocabulary: Vec<String>,
    cumulative: Vec<f64>,
    pub num_sessions: usize,
    made: usize,
    size: usize,
}

/// The one-letter words of the corpus, among its thirty most frequent ones.
pub const LETTERS: [&str; 2] = ["a", "i"];

impl Corpus {
    pub fn new(size: usize) -> Self {
        let mut random = Random(7);
        let mut vocabulary: Vec<String> = (0..50_000)
            .map(|_| (0..3 + random.below(7)).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
            .collect();
        for (rank, letter) in [12, 24].into_iter().zip(LETTERS) {
            vocabulary[rank] = letter.to_owned();
        }
        let mut sum = 0.0;
        let cumulative = (1..=vocabulary.len())
            .map(|rank| {
                sum += 1.0 / (rank as f64).powf(1.05);
                sum
            })
            .collect();
        Self { random, vocabulary, cumulative, num_sessions: (size / 100).max(10), made: 0, size }
    }

    fn word(&mut self) -> String {
        let at = self.random.unit() * self.cumulative[self.cumulative.len() - 1];
        let rank = self.cumulative.partition_point(|&sum| sum < at);
        self.vocabulary[rank.min(self.vocabulary.len() - 1)].clone()
    }

    pub fn next(&mut self) -> Message {
        let n = self.made;
        self.made += 1;
        let length = ((40f64.ln() + 1.48 * self.random.normal()).exp() as usize).clamp(1, 4_000);
        let mut text = String::new();
        for i in 0..length {
            if i > 0 {
                text.push_str([" ", " ", " ", ", ", ". "][self.random.below(5)]);
            }
            match self.random.below(60) {
                0 => text.push_str(&format!("{}-{}", self.word(), self.word())),
                1 => text.push_str(&format!("{:08x}", self.random.next() as u32)),
                2 => text.push_str(["会議", "проверка", "año", "naïve", "측정", "🤖"][self.random.below(6)]),
                _ => text.push_str(&self.word()),
            }
        }
        if self.random.below(10) < 3 {
            text.push_str(" common");
        }
        if self.random.below(100) == 0 {
            text.push_str(" percent");
        }
        if n.is_multiple_of((self.size / 20).max(1)) {
            text.push_str(" rare");
        }
        Message {
            session: format!("s{:06}", self.random.below(self.num_sessions)),
            id: format!("m{n:08}"),
            role: if n.is_multiple_of(2) { "user" } else { "assistant" },
            timestamp: 1_700_000_000_000 + n as i64 * 1_000,
            text,
        }
    }
}

/// The key of a session.
pub fn key_of(session: &str) -> String {
    format!("agent:main:{session}")
}

/// Writes messages as OpenClaw's files.
pub fn write_files<'m>(messages: impl IntoIterator<Item = &'m Message>, folder: &Path) {
    let mut writer = FileWriter::new(folder);
    messages.into_iter().for_each(|message| writer.add(message));
    writer.finish();
}

/// Writes OpenClaw's files. Holds no more than those of a few thousand messages at a time.
pub struct FileWriter {
    sessions: PathBuf,
    index: serde_json::Map<String, serde_json::Value>,
    waiting: BTreeMap<String, String>,
    num_waiting: usize,
}

impl FileWriter {
    pub fn new(folder: &Path) -> Self {
        let sessions = folder.join("agents/main/sessions");
        fs::create_dir_all(&sessions).unwrap();
        Self { sessions, index: serde_json::Map::new(), waiting: BTreeMap::new(), num_waiting: 0 }
    }

    pub fn add(&mut self, message: &Message) {
        let text = self.waiting.entry(message.session.clone()).or_default();
        self.index.entry(key_of(&message.session)).or_insert_with(|| {
            text.push_str(&serde_json::json!({ "type": "session", "version": 3, "id": message.session }).to_string());
            text.push('\n');
            serde_json::json!({ "sessionId": message.session, "updatedAt": message.timestamp })
        });
        text.push_str(&message.line());
        text.push('\n');
        self.num_waiting += 1;
        if self.num_waiting == 20_000 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for (session, text) in std::mem::take(&mut self.waiting) {
            let path = self.sessions.join(format!("{session}.jsonl"));
            let mut file = File::options().create(true).append(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        self.num_waiting = 0;
    }

    pub fn finish(mut self) {
        self.flush();
        let index = serde_json::Value::Object(self.index).to_string();
        fs::write(self.sessions.join("sessions.json"), index).unwrap();
    }
}

/// Chat messages of every gzipped file of a folder, a session a conversation, long ones split.
pub fn chat(folder: &Path) -> Vec<Message> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "gz"));
    files.sort();
    let mut messages: Vec<Message> = Vec::new();
    for path in files {
        let reader = BufReader::new(flate2::read::GzDecoder::new(File::open(path).unwrap()));
        for line in reader.lines() {
            let value: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            let (conversation, text) = (value["conv"].as_str().unwrap(), value["text"].as_str().unwrap());
            if text.trim().is_empty() {
                continue;
            }
            let n = messages.len();
            messages.push(Message {
                session: format!("{}-{}", conversation.replace(|c: char| !c.is_ascii_alphanumeric(), "-"), n / 500),
                id: format!("m{n:08}"),
                role: if n.is_multiple_of(2) { "user" } else { "assistant" },
                timestamp: 1_700_000_000_000 + n as i64 * 1_000,
                text: text.to_owned(),
            });
        }
    }
    messages
}

/// Memory of this process that is no mapped file, in MB.
pub fn anonymous_mb() -> u64 {
    resident_mb("RssAnon")
}

/// Memory of this process by its name in `/proc/self/status`, in MB: `RssAnon` is its own, `RssFile` that of mapped files.
pub fn resident_mb(kind: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
