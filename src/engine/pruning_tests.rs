//! Passing over documents changes no answer: compared with visiting every one, over segments, tail and dead documents.

use super::*;
use crate::search::phrase_set::PhraseSet;
use crate::search::query::ParsedQuery;
use crate::search::{Filter, Order, OrdinalSet, Search, execute};

/// Deterministic, and all that is needed here.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Small numbers are far more frequent.
    fn skewed(&mut self, bound: u64) -> u64 {
        let bound = self.below(bound) + 1;
        self.below(bound)
    }
}

fn fill(engine: &Engine, dice: &mut Dice, session: u64, messages: u64, longest: u64) {
    let key = SessionKey::parse(&format!("agent:main:s{session}")).unwrap();
    let lines = (0..messages).map(|n| {
        let words: Vec<String> = (0..=dice.skewed(longest)).map(|_| format!("w{}", dice.skewed(30))).collect();
        let id = format!("m{session}-{n}");
        serde_json::json!({ "type": "message", "id": id, "message": { "role": "user", "content": words.join(" ") } })
            .to_string()
            .into_bytes()
    });
    for result in engine.append(AppendRequest::new(key, lines.collect()), Timestamp::from_millis(7).unwrap()).unwrap() {
        result.unwrap();
    }
}

fn ranked(view: &View, query: &str, keep: usize, filter: &Filter, prune: bool) -> (Vec<(u64, u64)>, usize) {
    let parsed = ParsedQuery::parse(query, view.pipeline.analyzer(), false).unwrap();
    let visited = std::cell::Cell::new(0);
    let stop = || {
        visited.set(visited.get() + 1);
        false
    };
    let phrases = PhraseSet::new(&parsed.phrases);
    let search =
        Search { phrases: &phrases, filter, order: Order::Relevance, keep, explain: false, prune, stop: &stop };
    let found = execute(&view.index, &search, view).unwrap();
    (found.ranked.iter().map(|hit| (hit.facts.number.0, hit.score.to_bits())).collect(), visited.get())
}

#[test]
fn what_is_passed_over_would_not_have_been_kept() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path(), OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    let mut dice = Dice(11);
    let mut saved = 0;
    // Later texts are longer: the bounds that are known of earlier segments must hold under another average.
    for (round, longest) in [12, 12, 13, 20, 90].into_iter().enumerate() {
        for session in 0..8 {
            fill(&engine, &mut dice, round as u64 * 8 + session, 500, longest);
        }
        engine.checkpoint().unwrap();
        fill(&engine, &mut dice, 100 + round as u64, 40, longest);
        let gone = SessionKey::parse(&format!("agent:main:s{}", round * 8 + 3)).unwrap();
        engine.delete_key(&gone, Timestamp::from_millis(8).unwrap()).unwrap();
        let view = engine.committer.pin();
        let sessions = view.sessions.iter().step_by(3).map(|row| row.ordinal).collect::<OrdinalSet>();
        let some = Filter { sessions: Some(sessions), ..Filter::default() };
        for _ in 0..60 {
            let words: Vec<String> = (0..=dice.below(3)).map(|_| format!("w{}", dice.skewed(12))).collect();
            let (query, keep) = (words.join(if dice.below(8) == 0 { "-" } else { " " }), 1 + dice.below(40) as usize);
            for filter in [&Filter::default(), &some] {
                let (all, visits) = ranked(&view, &query, keep, filter, false);
                let (best, fewer) = ranked(&view, &query, keep, filter, true);
                assert_eq!(best, all, "{query:?}, the best {keep}");
                saved += visits - fewer;
            }
        }
    }
    assert!(saved > 0, "nothing was passed over");
}
