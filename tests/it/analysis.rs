//! The tokens of `unicode-word` are SQLite's.

use std::ops::Range;

use sessions_search::limits::MAX_TOKEN_BYTES;
use sessions_search::{Analyzer, TermMatch, UnicodeWord};

use crate::data;
use crate::oracle::TextOracle;
use crate::random::Random;

/// Folded texts and byte ranges.
fn tokens(text: &str) -> (Vec<Vec<u8>>, Vec<Range<usize>>) {
    let (mut folded, mut ranges) = (Vec::new(), Vec::new());
    UnicodeWord.tokenize(text, &mut |token| {
        folded.push(as_fts5_stores(token.text));
        ranges.push(token.start..token.end);
    });
    (folded, ranges)
}

/// Undoes what stands for the bytes of half a character at the end of a cut token: each takes four bytes, not one.
fn as_fts5_stores(token: &str) -> Vec<u8> {
    let num_odd = token.len().saturating_sub(MAX_TOKEN_BYTES) / 3;
    let (whole, odd) = token.split_at(token.len() - 4 * num_odd);
    whole.bytes().chain(odd.chars().map(|c| (c as u32 - 0xF_0000) as u8)).collect()
}

#[test]
fn every_scalar_in_four_contexts_gives_sqlites_tokens_and_byte_ranges() {
    let sqlite = TextOracle::new();
    let scalars: Vec<char> = ('\0'..=char::MAX).collect();
    assert_eq!(scalars.len(), 1_112_064);
    for chunk in scalars.chunks(64) {
        let text: String = chunk.iter().map(|c| format!("{c} a{c}b a{c} {c}b ")).collect();
        let (folded, ranges) = tokens(&text);
        sqlite.set_text(&text);
        assert_eq!(folded, sqlite.tokens(), "scalars from {:?}", chunk[0]);
        if !text.contains('\0') {
            assert_eq!(ranges, sqlite.ranges(&folded), "scalars from {:?}", chunk[0]);
        }
    }
}

#[test]
fn the_published_table_of_scalars_holds() {
    let Some(path) = data::codepoints("the_published_table_of_scalars_holds") else {
        return;
    };
    let table = std::fs::read_to_string(path).unwrap();
    let mut num_scalars = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [first, last, class, fold] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let scalar = |hex: &str| u32::from_str_radix(hex, 16).unwrap();
        for c in (scalar(first)..=scalar(last)).filter_map(char::from_u32) {
            let folded = match (fold, fold.strip_prefix("U+")) {
                ("." | "=", _) => c,
                (_, Some(hex)) => char::from_u32(scalar(hex)).unwrap(),
                (distance, None) => char::from_u32((c as i32 + distance.parse::<i32>().unwrap()) as u32).unwrap(),
            };
            let expected = match class {
                "T" => format!("a{folded}b"),
                "S" => "a b".to_owned(),
                "D" => "ab".to_owned(),
                _ => panic!("{line:?}"),
            };
            let found = tokens(&format!("a{c}b")).0.join(&b' ');
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{c:?}");
            num_scalars += 1;
        }
    }
    assert_eq!(num_scalars, 1_112_064);
}

/// What makes tokens start, go on, fold and end, in every length of UTF-8.
const SCALARS: &[char] = &[
    'a',
    'Z',
    '9',
    ' ',
    '\n',
    '.',
    '_',
    '\0',
    'é',
    'ß',
    'İ',
    'ſ',
    'Ω',
    'й',
    'И',
    '\u{300}',
    '\u{301}',
    '\u{305}',
    'ế',
    'K',
    'か',
    '検',
    '\u{3099}',
    '각',
    '\u{200d}',
    '…',
    '\u{fe0f}',
    '\u{fffd}',
    '😀',
    '🤖',
    '𐐀',
    '\u{10ffff}',
];

#[test]
fn random_texts_give_sqlites_tokens_and_byte_ranges() {
    let sqlite = TextOracle::new();
    let mut random = Random::new(1);
    for _ in 0..3_000 {
        let len = random.below(60);
        let text: String = (0..len).map(|_| random.pick(SCALARS)).collect();
        let (folded, ranges) = tokens(&text);
        sqlite.set_text(&text);
        assert_eq!(folded, sqlite.tokens(), "{text:?}");
        if !text.contains('\0') {
            assert_eq!(ranges, sqlite.ranges(&folded), "{text:?}");
        }
    }
}

#[test]
fn texts_of_sixteen_languages_give_sqlites_tokens() {
    let Some(folder) = data::test_data("texts_of_sixteen_languages_give_sqlites_tokens") else {
        return;
    };
    let sqlite = TextOracle::new();
    let mut num_files = 0;
    for entry in std::fs::read_dir(folder.join("multilingual")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = std::fs::read_to_string(&path).unwrap();
            sqlite.set_text(&text);
            assert!(tokens(&text).0 == sqlite.tokens(), "{}", path.display());
            num_files += 1;
        }
    }
    assert!(num_files > 0, "no texts in {}", folder.display());
}

#[test]
fn long_tokens_are_cut_where_fts5_cuts_them() {
    let sqlite = TextOracle::new();
    // The last character ends at, before and behind the limit, or has it inside; folded and not.
    for last in ["a", "é", "É", "й", "検", "か", "🤖", "𐐀", "\u{301}", "\u{F00E6}"] {
        for before in MAX_TOKEN_BYTES - 5..=MAX_TOKEN_BYTES + 1 {
            for start in ["x", "X"] {
                let text = format!("{start}{}{last}{last}z end", "x".repeat(before - 1));
                let (folded, ranges) = tokens(&text);
                sqlite.set_text(&text);
                assert!(folded == sqlite.tokens(), "{before} bytes, then {last:?}");
                assert_eq!(ranges, [0..text.len() - 4, text.len() - 3..text.len()]);
            }
        }
    }
}

#[test]
fn tokens_cut_inside_a_character_are_equal_when_fts5s_are() {
    let first = |text: &str| {
        let mut first = None;
        UnicodeWord.tokenize(text, &mut |token| {
            first.get_or_insert(token.text.to_owned());
        });
        first.unwrap()
    };
    let stem = "x".repeat(MAX_TOKEN_BYTES - 1);
    // й and и share their first byte, л has another.
    assert_eq!(first(&format!("{stem}й")), first(&format!("{stem}и")));
    assert_ne!(first(&format!("{stem}й")), first(&format!("{stem}р")));
    assert_ne!(first(&format!("{stem}й")), first(&stem));
    assert!(first(&format!("{stem}й")).starts_with(&stem));
    assert_ne!(first(&format!("{stem}й")), first(&format!("{stem}\u{F00D0}")));
}

#[test]
fn byte_ranges_keep_inner_and_final_marks() {
    assert_eq!(tokens("e\u{301} \u{301}a").1, [0..3, 6..7]);
    assert_eq!(tokens("a\u{301}\u{301}b, c").1, [0..6, 8..9]);
}

#[test]
fn a_phrase_has_its_tokens_at_consecutive_offsets() {
    let phrase = UnicodeWord.phrase("Foo.bar-foo", true);
    let terms: Vec<_> = phrase.terms.iter().map(|t| (t.offset, t.term.clone())).collect();
    let exact = |text: &str| TermMatch::Exact(text.to_owned());
    assert_eq!(terms, [(0, exact("foo")), (1, exact("bar")), (2, TermMatch::Prefix("foo".to_owned()))]);
    assert_eq!(phrase.num_positions, 3);
    assert_eq!(UnicodeWord.phrase("🎉 - \u{301}", true), Default::default());
}
