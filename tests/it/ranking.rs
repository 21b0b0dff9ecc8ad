//! Whole searches by a matcher too simple to be wrong, scored with our bm25, against SQLite's: the same hits, the same
//! scores to the last bit, the same order and excerpts.

use std::cmp::Reverse;

use sessions_search::__internal::bm25::{Bm25, idf};
use sessions_search::__internal::excerpt::{Excerpt, ExcerptStyle};
use sessions_search::__internal::instances::PhraseFinder;
use sessions_search::__internal::phrase_set::PhraseSet;
use sessions_search::__internal::query::ParsedQuery;
use sessions_search::{Analyzer, Phrase, TermMatch, UnicodeWord};

use crate::data;
use crate::oracle::{Fts5Oracle, OracleHit, OracleMessage};
use crate::queries::QueryGenerator;
use crate::random::Random;

/// A message of the corpus.
#[derive(Debug, Clone)]
struct Message {
    session_id: String,
    message_id: String,
    timestamp: i64,
    text: String,
    tokens: Vec<String>,
}

impl Message {
    fn new(session_id: String, message_id: String, timestamp: i64, text: String) -> Self {
        let mut tokens = Vec::new();
        UnicodeWord.tokenize(&text, &mut |token| tokens.push(token.text.to_owned()));
        Self { session_id, message_id, timestamp, text, tokens }
    }

    fn for_oracle(&self) -> OracleMessage<'_> {
        OracleMessage {
            session_id: &self.session_id,
            message_id: &self.message_id,
            role: "user",
            timestamp: self.timestamp,
            text: &self.text,
        }
    }

    /// How often `phrase` stands here, overlaps included.
    fn frequency(&self, phrase: &Phrase) -> u32 {
        let accepts = |term: &TermMatch, token: &String| match term {
            TermMatch::Exact(text) => text == token,
            TermMatch::Prefix(start) => token.starts_with(start),
        };
        let stands_at = |window: &&[String]| phrase.terms.iter().zip(*window).all(|(t, token)| accepts(&t.term, token));
        self.tokens.windows(phrase.terms.len()).filter(stands_at).count() as u32
    }
}

/// Everything that matches, best first.
fn search(corpus: &[Message], query: &str, prefix: bool, sessions: Option<&[&str]>) -> Vec<OracleHit> {
    let parsed = ParsedQuery::parse(query, &UnicodeWord, prefix).expect("a legal query");
    if !parsed.ignored.is_empty() {
        return Vec::new();
    }
    let frequencies: Vec<Vec<u32>> =
        corpus.iter().map(|message| parsed.phrases.iter().map(|phrase| message.frequency(phrase)).collect()).collect();
    let num_docs = corpus.len() as u64;
    let idfs: Vec<f64> = (0..parsed.phrases.len())
        .map(|phrase| idf(num_docs, frequencies.iter().filter(|f| f[phrase] > 0).count() as u64))
        .collect();
    let bm25 = Bm25::new(num_docs, corpus.iter().map(|message| message.tokens.len() as u64).sum());
    let set = PhraseSet::new(&parsed.phrases);
    let finder = PhraseFinder::new(&set);

    let mut hits: Vec<(&Message, OracleHit)> = Vec::new();
    for (message, frequencies) in corpus.iter().zip(&frequencies) {
        let admitted = sessions.is_none_or(|sessions| sessions.contains(&message.session_id.as_str()));
        if admitted && frequencies.iter().all(|&frequency| frequency > 0) {
            let parts = idfs.iter().copied().zip(frequencies.iter().copied());
            let matched = finder.find(&UnicodeWord, &message.text);
            let hit = OracleHit {
                session_id: message.session_id.clone(),
                message_id: message.message_id.clone(),
                score: bm25.score(message.tokens.len() as u32, parts),
                snippet: Excerpt::new(&matched, &set, ExcerptStyle::Fts5).text,
            };
            hits.push((message, hit));
        }
    }
    hits.sort_by(|(m1, h1), (m2, h2)| {
        let by_ids = (&m1.message_id, &m1.session_id).cmp(&(&m2.message_id, &m2.session_id));
        h2.score.total_cmp(&h1.score).then(Reverse(m1.timestamp).cmp(&Reverse(m2.timestamp))).then(by_ids)
    });
    hits.into_iter().map(|(_, hit)| hit).collect()
}

/// Asks both `num_queries` times; gives the number of hits compared.
fn compare(corpus: &[Message], sqlite: &Fts5Oracle, seed: u64, num_queries: usize) -> usize {
    let mut queries = QueryGenerator::new(seed, corpus.iter().map(|message| message.text.as_str()));
    let mut random = Random::new(seed);
    let mut num_hits = 0;
    for _ in 0..num_queries {
        let query = queries.next();
        let prefix = random.below(5) == 0;
        let sessions = (random.below(4) == 0).then_some(["s1", "s3", "none"].as_slice());
        let limit = random.pick(&[1, 10, 10_000]);
        let mut ours = search(corpus, &query, prefix, sessions);
        ours.truncate(limit);
        let theirs = if prefix {
            let pieces: Vec<&str> = sessions_search::__internal::query::split(&query).expect("a legal query").collect();
            sqlite.search_pieces(&pieces, true, limit, sessions)
        } else {
            sqlite.search(&query, limit, sessions)
        };
        assert_eq!(ours, theirs, "{query:?}, prefix {prefix}, limit {limit}, sessions {sessions:?}");
        num_hits += ours.len();
    }
    num_hits
}

const WORDS: &[&str] = &[
    "the",
    "The",
    "a",
    "otter",
    "map",
    "river",
    "folder",
    "café",
    "cafe\u{301}",
    "naïve",
    "deploy",
    "failed",
    "foo-bar",
    "foo.bar",
    "v2026.9.2",
    "don't",
    "検索",
    "日本語",
    "한국어",
    "🤖",
    "🎉",
    "ΣΊΣΥΦΟΣ",
    "σίσυφος",
    "straße",
    "a\0b",
    "e",
    "x",
];
const GAPS: &[&str] = &[" ", " ", " ", ", ", ". ", ": ", "\n", " - "];

fn random_text(random: &mut Random) -> String {
    let num_words = random.pick(&[0, 1, 2, 3, 5, 8, 13, 40, 90]);
    let num_distinct = 1 + random.below(WORDS.len());
    (0..num_words).flat_map(|_| [random.pick(&WORDS[..num_distinct]), random.pick(GAPS)]).collect()
}

#[test]
fn small_corpora_with_deletes_and_copies_give_sqlites_answers() {
    let mut random = Random::new(5);
    let mut num_hits = 0;
    for seed in 0..60 {
        let mut sqlite = Fts5Oracle::new();
        let mut corpus: Vec<Message> = Vec::new();
        for number in 0..1 + random.below(60) {
            // Copies and equal times, so that every tie occurs.
            let text = match corpus.len() {
                len if len > 0 && random.below(4) == 0 => corpus[random.below(len)].text.clone(),
                _ => random_text(&mut random),
            };
            let (session, message) = (format!("s{}", random.below(5)), format!("m{}", random.below(10)));
            let (session, message) =
                if random.below(3) == 0 { (session, message) } else { (session, number.to_string()) };
            if corpus.iter().all(|m| (&m.session_id, &m.message_id) != (&session, &message)) {
                corpus.push(Message::new(session, message, random.below(3) as i64, text));
            }
        }
        sqlite.insert(corpus.iter().map(Message::for_oracle));
        num_hits += compare(&corpus, &sqlite, seed, 60);

        let gone = corpus.swap_remove(random.below(corpus.len()));
        assert_eq!(sqlite.delete(&gone.session_id, &gone.message_id), 1);
        let num_rows = corpus.len();
        corpus.retain(|message| message.session_id != "s2");
        assert_eq!(sqlite.delete_session("s2"), num_rows - corpus.len());
        num_hits += compare(&corpus, &sqlite, seed + 1_000, 60);
    }
    assert!(num_hits > 10_000, "only {num_hits} hits were compared");
}

#[test]
fn messages_of_sixteen_languages_give_sqlites_answers() {
    let Some(folder) = data::test_data("messages_of_sixteen_languages_give_sqlites_answers") else { return };
    let mut corpus = Vec::new();
    for entry in std::fs::read_dir(folder.join("multilingual")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let sentences = std::fs::read_to_string(&path).unwrap();
            for (number, sentence) in sentences.lines().take(60).enumerate() {
                let id = format!("{}-{number}", path.display());
                corpus.push(Message::new(format!("s{}", number % 4), id, number as i64, sentence.to_owned()));
            }
        }
    }
    let mut sqlite = Fts5Oracle::new();
    sqlite.insert(corpus.iter().map(Message::for_oracle));
    assert!(compare(&corpus, &sqlite, 6, 150) > 0);
}
