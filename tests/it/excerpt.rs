//! Excerpts are FTS5's `snippet()`.

use std::ops::Range;

use sessions_search::__internal::excerpt::{Excerpt, ExcerptStyle, choose_window, render};
use sessions_search::__internal::instances::{Instance, MatchedText, PhraseFinder, TokenSpan};
use sessions_search::__internal::phrase_set::PhraseSet;
use sessions_search::limits::EXCERPT_TOKENS;
use sessions_search::{Analyzer, Phrase, PhraseTerm, TermMatch, UnicodeWord};

use crate::data;
use crate::oracle::{TextOracle, match_expression};
use crate::random::Random;

/// The rule written down as in fts5-semantics §6.2 to §6.4, quadratic and without any thought of speed: the first token
/// of the window. An instance is (offset, phrase), a phrase its place in the query.
fn naive_start(
    text: &str,
    spans: &[TokenSpan],
    instances: &[(usize, usize)],
    lens: &[usize],
    num_tokens: usize,
) -> usize {
    let sentence_start = |token: usize| {
        let before = &text[..spans[token].start as usize];
        let trimmed = before.trim_end_matches([' ', '\t', '\n', '\r']);
        token == 0 || (trimmed.len() < before.len() && trimmed.ends_with(['.', ':']))
    };
    let score = |start: usize| {
        let counted: Vec<_> = instances.iter().filter(|(o, _)| (start..start + num_tokens).contains(o)).collect();
        let mut seen = vec![false; lens.len()];
        let mut score = 0;
        for &&(_, phrase) in &counted {
            score += if seen[phrase] { 1 } else { 1000 };
            seen[phrase] = true;
        }
        let adjusted = counted.first().zip(counted.last()).map_or(0, |(&&(first, _), &&(last, phrase))| {
            let (first, last) = (first as i64, (last + lens[phrase]) as i64);
            let (w, n) = (num_tokens as i64, spans.len() as i64);
            let a = first - (w - (last - first)) / 2;
            let a = if a + w > n { n - w } else { a };
            a.max(0) as usize
        });
        (score, adjusted)
    };
    let (mut best, mut start) = (0, 0);
    for &(offset, _) in instances {
        let (at_instance, adjusted) = score(offset);
        if at_instance > best {
            (best, start) = (at_instance, adjusted);
        }
        if spans.len() > num_tokens {
            let sentence = (0..=offset).rfind(|&token| sentence_start(token)).expect("token 0 starts one");
            if sentence < offset {
                let with_bonus = score(sentence).0 + if sentence == 0 { 120 } else { 100 };
                if with_bonus > best {
                    (best, start) = (with_bonus, sentence);
                }
            }
        }
    }
    start
}

/// [`naive_start`] for what was found in a text, repeats unfolded again.
fn naive_start_of(matched: &MatchedText<'_>, set: &PhraseSet, num_tokens: usize) -> usize {
    let mut instances = Vec::new();
    for instance in &matched.instances {
        for (place, &number) in set.in_query_order().iter().enumerate() {
            if number == instance.phrase as usize {
                instances.push((instance.offset as usize, place));
            }
        }
    }
    instances.sort_unstable();
    let len = |&number: &usize| set.distinct()[number].phrase.num_positions as usize;
    let lens: Vec<usize> = set.in_query_order().iter().map(len).collect();
    naive_start(matched.text, &matched.spans, &instances, &lens, num_tokens)
}

/// The text of a window, NUL bytes left out.
fn readable(matched: &MatchedText<'_>, window: &Range<usize>) -> String {
    let spans = &matched.spans;
    let (before, first) = if window.start == 0 { ("", 0) } else { (" … ", spans[window.start].start as usize) };
    let (last, after) = if window.end == spans.len() {
        (matched.text.len(), "")
    } else {
        (spans[window.end - 1].end as usize, " … ")
    };
    format!("{before}{}{after}", matched.text[first..last].replace('\0', ""))
}

/// What a random text is made of.
const WORDS: &[&str] =
    &["a", "b", "B", "é", "e\u{301}", "E", "日本", "Ж", "needle", "hay", "straw", "x1", "🤖", "Zoë", "ǅ", "the"];
const GAPS: &[&str] = &[
    " ", " ", " ", " ", " ", " ", ". ", ": ", ".\n", ".\r\n\t", "! ", "? ", "。 ", ", ", "\n\n", ".", ":", "-", "_",
    ".\u{a0}", ".\u{b} ", ".\" ", ".) ", " … ", "😀", " \u{301}", "/",
];

/// Words and gaps, by chance with some leading and trailing ones, NULs and sentences that are rare or frequent.
fn random_text(random: &mut Random) -> String {
    let num_words = match random.below(10) {
        0 => random.below(8),
        1..4 => 40 + random.below(20),
        4..9 => 50 + random.below(250),
        _ => 300 + random.below(700),
    };
    let num_distinct = 2 + random.below(WORDS.len() - 1);
    let num_gaps = random.pick(&[1, 6, 7, 8, GAPS.len(), GAPS.len()]);
    let with_nul = random.below(6) == 0;
    let rare_at = random.below(num_words + 1);
    let mut text = String::new();
    for word in 0..num_words {
        if word > 0 || random.below(3) == 0 {
            text.push_str(random.pick(&GAPS[..num_gaps]));
        }
        if with_nul && random.below(12) == 0 {
            text.push('\0');
        }
        text.push_str(if word == rare_at { "rare" } else { random.pick(&WORDS[..num_distinct]) });
    }
    if random.below(2) == 0 {
        text.push_str(random.pick(GAPS));
    }
    text
}

/// Pieces that mostly stand in the text: words, phrases that overlap, very long phrases, repeats, strangers.
fn random_pieces(random: &mut Random, matched: &MatchedText<'_>) -> Vec<String> {
    let mut pieces = Vec::new();
    for _ in 0..=random.below(4) {
        let num_tokens = matched.spans.len();
        if num_tokens == 0 || random.below(8) == 0 {
            pieces.push(random.pick(&["rare", "needle", "a", "a-a", "a-b-a", "hay-straw"]).to_owned());
            continue;
        }
        let len = match random.below(16) {
            0..9 => 1,
            9..13 => 2,
            13..15 => 3 + random.below(3),
            _ => 20 + random.below(80),
        };
        let first = random.below(num_tokens);
        let last = (first + len).min(num_tokens) - 1;
        let bytes = matched.spans[first].start as usize..matched.spans[last].end as usize;
        pieces.push(matched.text[bytes].replace(|c: char| c.is_whitespace() || c == '\0' || c == '\u{feff}', "-"));
    }
    if random.below(4) == 0 {
        let again = pieces[random.below(pieces.len())].clone();
        pieces.insert(random.below(pieces.len() + 1), again);
    }
    pieces
}

/// Compares everything about one excerpt with SQLite's and the naive rule's; false when the text does not match.
fn check(sqlite: &TextOracle, text: &str, pieces: &[&str], prefix: bool, num_tokens: usize) -> bool {
    let mut phrases: Vec<Phrase> = pieces.iter().map(|piece| UnicodeWord.phrase(piece, false)).collect();
    if prefix && let Some((last, piece)) = phrases.last_mut().zip(pieces.last()) {
        *last = UnicodeWord.phrase(piece, true);
    }
    let set = PhraseSet::new(&phrases);
    let matched = PhraseFinder::new(&set).find(&UnicodeWord, text);
    let found = (0..set.distinct().len()).all(|p| matched.instances.iter().any(|i| i.phrase as usize == p));
    let context = || format!("{pieces:?} (prefix {prefix}, {num_tokens} tokens) in {text:?}");

    let Some(expected) = sqlite.snippet(&match_expression(pieces, prefix), num_tokens) else {
        assert!(!found, "SQLite finds nothing for {}", context());
        return false;
    };
    assert!(found, "only SQLite finds {}", context());
    let window = choose_window(&matched, &set, num_tokens);
    if matched.instances.len() < 150 {
        assert_eq!(window.start, naive_start_of(&matched, &set, num_tokens), "{}", context());
    }
    let excerpt = render(&matched, &set, window.clone(), num_tokens, ExcerptStyle::Fts5);
    assert_eq!((excerpt.text, excerpt.matches), expected, "{}", context());

    let excerpt = render(&matched, &set, window.clone(), num_tokens, ExcerptStyle::Readable);
    assert_eq!(excerpt.text, readable(&matched, &window), "{}", context());
    let mut end = 0;
    for range in &excerpt.matches {
        assert!(end <= range.start && range.start < range.end, "{}", context());
        assert!(excerpt.text.get(range.clone()).is_some(), "{}", context());
        end = range.end;
    }
    true
}

#[test]
fn random_texts_give_sqlites_excerpts() {
    let sqlite = TextOracle::new();
    let mut random = Random::new(2);
    let mut num_found = 0;
    for _ in 0..1_500 {
        let text = random_text(&mut random);
        sqlite.set_text(&text);
        let nothing = PhraseSet::new(&[]);
        let matched = PhraseFinder::new(&nothing).find(&UnicodeWord, &text);
        for _ in 0..4 {
            let pieces = random_pieces(&mut random, &matched);
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let num_tokens = if random.below(3) == 0 { 1 + random.below(64) } else { EXCERPT_TOKENS };
            num_found += usize::from(check(&sqlite, &text, &pieces, random.below(6) == 0, num_tokens));
        }
    }
    assert!(num_found > 4_000, "only {num_found} excerpts were compared");
}

#[test]
fn messages_of_sixteen_languages_give_sqlites_excerpts() {
    let Some(folder) = data::test_data("messages_of_sixteen_languages_give_sqlites_excerpts") else { return };
    let sqlite = TextOracle::new();
    let mut random = Random::new(3);
    for entry in std::fs::read_dir(folder.join("multilingual")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let sentences = std::fs::read_to_string(&path).unwrap();
        let sentences: Vec<&str> = sentences.lines().collect();
        for _ in 0..10 {
            let first = random.below(sentences.len());
            let text = sentences[first..sentences.len().min(first + 1 + random.below(40))].join("\n");
            sqlite.set_text(&text);
            let words: Vec<&str> = text.split_whitespace().collect();
            for _ in 0..6 {
                let pieces: Vec<&str> = (0..=random.below(3)).map(|_| random.pick(&words)).collect();
                check(&sqlite, &text, &pieces, false, EXCERPT_TOKENS);
            }
        }
    }
}

#[test]
fn windows_are_the_naive_ones_for_any_instances() {
    let mut random = Random::new(4);
    for _ in 0..5_000 {
        let num_tokens = 1 + random.below(60);
        let (mut text, mut spans) = (String::new(), Vec::new());
        for _ in 0..=random.below(300) {
            let start = text.len() as u32;
            text.push('w');
            spans.push(TokenSpan { start, end: start + 1 });
            text.push_str(if random.below(15) == 0 { ". " } else { " " });
        }
        // What the phrases say does not matter here, only which are equal and how long they are.
        let distinct: Vec<Phrase> = (0..=random.below(4))
            .map(|number| {
                let term = TermMatch::Exact(number.to_string());
                Phrase { terms: vec![PhraseTerm { offset: 0, term }], num_positions: 1 + random.below(70) as u32 }
            })
            .collect();
        let phrases: Vec<Phrase> =
            (0..=random.below(6)).map(|_| distinct[random.below(distinct.len())].clone()).collect();
        let set = PhraseSet::new(&phrases);
        let mut instances: Vec<Instance> = (0..random.below(80))
            .map(|_| Instance {
                offset: random.below(spans.len()) as u32,
                phrase: random.below(set.distinct().len()) as u32,
            })
            .collect();
        instances.sort_unstable();
        instances.dedup();
        let matched = MatchedText { text: &text, spans, instances };
        let window = choose_window(&matched, &set, num_tokens);
        assert_eq!(window.start, naive_start_of(&matched, &set, num_tokens), "{matched:?}, {set:?}, {num_tokens}");
        assert_eq!(window.end, matched.spans.len().min(window.start + num_tokens));
    }
}

fn excerpt(text: &str, pieces: &[&str], style: ExcerptStyle) -> Excerpt {
    let phrases: Vec<Phrase> = pieces.iter().map(|piece| UnicodeWord.phrase(piece, false)).collect();
    let set = PhraseSet::new(&phrases);
    Excerpt::new(&PhraseFinder::new(&set).find(&UnicodeWord, text), &set, style)
}

fn marked(excerpt: &Excerpt) -> Vec<&str> {
    excerpt.matches.iter().map(|range| &excerpt.text[range.clone()]).collect()
}

#[test]
fn a_nul_is_dropped_and_the_text_around_it_stays() {
    let text = "a b\0c needle d\0e needle f\0g";
    assert_eq!(excerpt(text, &["needle"], ExcerptStyle::Fts5).text, "a bneedle dneedle f");
    let readable = excerpt(text, &["needle", "d-e", "g"], ExcerptStyle::Readable);
    assert_eq!(readable.text, "a bc needle de needle fg");
    assert_eq!(marked(&readable), ["needle", "de", "needle", "g"]);
}

#[test]
fn what_is_visible_of_a_match_longer_than_the_window_is_marked() {
    let long = vec!["word"; 60].join("-");
    let text = format!("{} after", long.replace('-', " "));
    let readable = excerpt(&text, &[&long], ExcerptStyle::Readable);
    assert_eq!(marked(&readable), [vec!["word"; EXCERPT_TOKENS].join(" ")]);
    assert_eq!(readable.text, format!(" … {} … ", marked(&readable)[0]));
    assert_eq!(marked(&excerpt(&text, &[&long], ExcerptStyle::Fts5)), [""; 0]);
}

#[test]
fn overlapping_and_repeated_matches_are_marked_once() {
    let readable = excerpt("x a b c, a", &["a-b", "b-c", "a", "a"], ExcerptStyle::Readable);
    assert_eq!(marked(&readable), ["a b c", "a"]);
}

#[test]
fn excerpts_of_hostile_texts_take_linear_time() {
    let text = "a ".repeat(70_000);
    assert_eq!(excerpt(&text, &vec!["a"; 2_048], ExcerptStyle::Readable).matches.len(), EXCERPT_TOKENS);
    let pieces = ["a", "a-a", "a-a-a", "a-a-a-a"];
    assert_eq!(excerpt(&text, &pieces, ExcerptStyle::Readable).matches.len(), 1);
}
