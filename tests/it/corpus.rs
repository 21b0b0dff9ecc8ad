//! Texts to put into stores: invented ones, and public ones where the environment names their folder.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;

use crate::random::Random;

/// One message of a corpus.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Messages with the same number belong to one conversation.
    pub(crate) conversation: usize,
    pub(crate) text: String,
}

/// Words of an invented language, Zipf-like: early ones are drawn far more often.
pub(crate) fn invented(seed: u64, num_messages: usize) -> Vec<Message> {
    const ODDITIES: &[&str] = &[
        "cold-brew",
        "don't",
        "café",
        "naïve",
        "ΣΊΣΥΦΟΣ",
        "İzmir",
        "straße",
        "a.b.c",
        "v2026.9.2",
        "会议",
        "全文検索",
        "한국어",
        "ที่",
        "हिन्दी",
        "🎉",
        "🤖",
        "👍🏽",
        "#123",
        "src/main.rs",
        "e\u{301}te\u{301}",
        "foo_bar",
        "C++",
        "…",
        "\u{0}nul\u{0}",
        "Привет",
        "ά",
        "ｆｕｌｌ",
        "١٢٣",
        "—",
        "“quoted”",
    ];
    let mut random = Random::new(seed);
    let vocabulary: Vec<String> = (0..2_000)
        .map(|_| (0..2 + random.below(7)).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
        .collect();
    let conversations = 1 + num_messages / 40;
    (0..num_messages)
        .map(|_| {
            let length = match random.below(20) {
                0 => 0,
                1 => 200 + random.below(400),
                _ => 1 + random.below(60),
            };
            let mut text = String::new();
            for _ in 0..length {
                let highest = random.below(vocabulary.len());
                let rank = random.below(highest + 1);
                match random.below(25) {
                    0 => text.push_str(random.pick(ODDITIES)),
                    1 => text.push_str(&vocabulary[rank].to_uppercase()),
                    _ => text.push_str(&vocabulary[rank]),
                }
                text.push_str(random.pick(&[" ", " ", " ", " ", " ", ", ", ". ", ": ", "\n", "-", "! ", "\t"]));
            }
            Message { conversation: random.below(conversations), text }
        })
        .collect()
}

/// The lines of a gzipped file of JSON objects.
fn json_lines(path: &Path) -> Vec<serde_json::Value> {
    BufReader::new(GzDecoder::new(File::open(path).unwrap()))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// Messages of every gzipped file of `folder` whose name starts with `prefix`; `conversation` names the member that
/// holds what belongs together.
pub(crate) fn gzipped(folder: &Path, prefix: &str, conversation: &str) -> Vec<Message> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    files.sort();
    let mut names: Vec<String> = Vec::new();
    let mut messages = Vec::new();
    for value in files.iter().flat_map(|path| json_lines(path)) {
        let name = value[conversation].as_str().unwrap_or_default().to_owned();
        if names.last() != Some(&name) {
            names.push(name);
        }
        messages.push(Message { conversation: names.len(), text: value["text"].as_str().unwrap_or_default().into() });
    }
    messages
}

/// Sentences of the 16 languages, a conversation a language.
pub(crate) fn sentences(folder: &Path) -> Vec<Message> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("lingua."));
    files.sort();
    let mut messages = Vec::new();
    for (conversation, path) in files.iter().enumerate() {
        let text = fs::read_to_string(path).unwrap();
        messages.extend(text.lines().map(|line| Message { conversation, text: line.to_owned() }));
    }
    messages
}
