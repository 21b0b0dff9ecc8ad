//! What is measured: messages, more of the same to append, and queries with what they stand for.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::backend::Query;
use crate::corpus::{self, Corpus, Message, key_of};

pub struct Load {
    /// A word for files: `generated-10000`.
    pub name: String,
    pub messages: Vec<Message>,
    pub more: Vec<Message>,
    pub queries: Vec<Query>,
    /// Frequent words, for a thousand searches.
    pub words: Vec<String>,
    /// The worst legal query: as many pieces as the length allows.
    pub worst: Query,
}

/// Messages to append in all the stages together.
const MORE: usize = 20_000;

fn query(class: &'static str, words: impl Into<String>) -> Query {
    Query { class, words: words.into(), prefix: false }
}

/// 2,048 pieces of one letter: 4,095 characters.
fn worst(letters: [&str; 2]) -> Query {
    query("2,048 one-letter words", letters.iter().cycle().take(2_048).copied().collect::<Vec<_>>().join(" "))
}

impl Load {
    /// The generated corpus, the same on every machine.
    pub fn generated(size: usize) -> Self {
        let mut corpus = Corpus::new(size);
        let messages: Vec<Message> = (0..size).map(|_| corpus.next()).collect();
        let more = (0..MORE).map(|_| corpus.next()).collect();
        let word = |rank: usize| corpus.vocabulary[rank].as_str();
        let queries = vec![
            query("word in 30 %", "common"),
            query("word in 1 %", "percent"),
            query("word in 20 messages", "rare"),
            query("most frequent word", word(0)),
            query("two mid words", format!("{} {}", word(60), word(90))),
            query("common and mid", format!("common {}", word(60))),
            query("five frequent words", [1, 2, 4, 5, 6].map(word).join(" ")),
            query("phrase of two", format!("{}-{}", word(1), word(2))),
            query("phrase of three", format!("{}-{}-{}", word(0), word(1), word(0))),
            Query { class: "start of a word", words: word(60)[..3].to_owned(), prefix: true },
            query("no hit", "zzzzzzzzzz"),
            query("two words that never meet", format!("rare {}", word(30_000))),
        ];
        let words = corpus.vocabulary[..1_000].to_vec();
        let name = format!("generated-{size}");
        Self { name, messages, more, queries, words, worst: worst(corpus::LETTERS) }
    }

    /// A folder of gzipped chats; the queries are chosen by how many messages hold the words.
    pub fn from_folder(folder: &Path) -> Self {
        let messages = corpus::chat(folder);
        let again = messages.iter().cycle().take(MORE).enumerate();
        let more =
            again.map(|(n, message)| message.renamed(format!("n{n:08}"), 1_900_000_000_000 + n as i64)).collect();
        let mut holding: HashMap<String, usize> = HashMap::new();
        let mut pairs: BTreeMap<(String, String), usize> = BTreeMap::new();
        for message in &messages {
            let words: Vec<String> = words_of(&message.text).collect();
            for pair in words.windows(2) {
                *pairs.entry((pair[0].clone(), pair[1].clone())).or_default() += 1;
            }
            let distinct: std::collections::BTreeSet<String> = words.into_iter().collect();
            distinct.into_iter().for_each(|word| *holding.entry(word).or_default() += 1);
        }
        let mut by_count: Vec<(usize, String)> = holding.into_iter().map(|(word, count)| (count, word)).collect();
        by_count.sort_by(|a, b| b.cmp(a));
        let near = |wanted: usize| {
            by_count.iter().min_by_key(|(count, _)| count.abs_diff(wanted)).map(|(_, word)| word.as_str()).unwrap()
        };
        let total = messages.len();
        let ((first, second), _) = pairs.iter().max_by_key(|(_, count)| **count).unwrap();
        let queries = vec![
            query("most frequent word", by_count[0].1.clone()),
            query("word in 10 %", near(total / 10)),
            query("word in 1 %", near(total / 100)),
            query("word in 20 messages", near(20)),
            query("two mid words", format!("{} {}", near(total / 30), near(total / 50))),
            query("common and mid", format!("{} {}", near(total / 5), near(total / 50))),
            query("phrase of two", format!("{first}-{second}")),
            Query { class: "start of a word", words: near(total / 50)[..2].to_owned(), prefix: true },
            query("no hit", "zzzzzzzzzz"),
            query("two words that never meet", format!("{} zzzzzzzzzz", near(total / 10))),
        ];
        let words = by_count.iter().take(1_000).map(|(_, word)| word.clone()).collect();
        let name = format!("chat-{total}");
        Self { name, messages, more, queries, words, worst: worst(["a", "i"]) }
    }

    pub fn sessions(&self) -> Vec<String> {
        let mut sessions: Vec<String> = self.messages.iter().map(|message| message.session.clone()).collect();
        sessions.sort();
        sessions.dedup();
        sessions
    }

    /// 200 keys spread over all sessions, or all.
    pub fn some_keys(&self) -> Vec<String> {
        let sessions = self.sessions();
        let step = (sessions.len() / 200).max(1);
        sessions.iter().step_by(step).take(200).map(|session| key_of(session)).collect()
    }
}

fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic())).map(str::to_ascii_lowercase)
}
