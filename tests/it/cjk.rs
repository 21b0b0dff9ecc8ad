//! The analyzer `cjk`: its tokens and phrases, what they find against a plain scan, its excerpts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use sessions_search::{
    Analyzer, AppendRequest, Cjk, Engine, Hit, OpenOptions, Redaction, SearchRequest, SessionKey, TermMatch, Timestamp,
    UnicodeWord,
};
use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::corpus::{self, Message};
use crate::data::test_data;
use crate::random::Random;

/// Tokens and the bytes of the text each stands for.
fn tokens(text: &str) -> Vec<(String, &str)> {
    let mut tokens = Vec::new();
    Cjk.tokenize(text, &mut |token| tokens.push((token.text.to_owned(), &text[token.start..token.end])));
    tokens
}

fn token_texts(text: &str) -> Vec<String> {
    tokens(text).into_iter().map(|(token, _)| token).collect()
}

/// `offset:token` of each term, a prefix with `*`, and how many positions the phrase covers.
fn phrase(piece: &str, prefix: bool) -> String {
    let phrase = Cjk.phrase(piece, prefix);
    let terms = phrase.terms.iter().map(|term| match &term.term {
        TermMatch::Exact(text) => format!("{}:{text} ", term.offset),
        TermMatch::Prefix(text) => format!("{}:{text}* ", term.offset),
    });
    terms.collect::<String>() + &phrase.num_positions.to_string()
}

#[test]
fn a_run_has_a_token_for_each_of_its_characters_and_ends_words() {
    assert_eq!(
        tokens("请检查apiKey配置。OK"),
        [
            ("请检查", "请"),
            ("检查", "检"),
            ("查", "查"),
            ("apikey", "apiKey"),
            ("配置", "配"),
            ("置", "置"),
            ("ok", "OK")
        ]
        .map(|(token, bytes)| (token.to_owned(), bytes))
    );
    assert_eq!(token_texts("ที่"), ["ที่", "ี่", "่"], "marks are characters of the run");
    assert_eq!(token_texts("日本語のテスト한국").len(), 9, "one run, whatever its scripts");
    assert_eq!(token_texts("hello wörld"), ["hello", "world"]);
}

#[test]
fn the_text_is_normalised_and_tokens_know_where_they_came_from() {
    assert_eq!(
        tokens("ｱﾊﾟｰﾄ"),
        [("アパー", "ｱ"), ("パート", "ﾊﾟ"), ("ート", "ｰ"), ("ト", "ﾄ")].map(|(a, b)| (a.to_owned(), b))
    );
    assert_eq!(
        tokens("ＡＰＩは㍿"),
        [("api", "ＡＰＩ"), ("は株式", "は"), ("株式会", "㍿"), ("式会社", "㍿"), ("会社", "㍿"), ("社", "㍿")]
            .map(|(a, b)| (a.to_owned(), b))
    );
    let decomposed: String = "한국".nfd().collect();
    assert_eq!(tokens(&decomposed)[0], ("한국".to_owned(), &decomposed[..9]));
}

#[test]
fn selectors_hints_and_dropped_marks_part_no_run() {
    assert_eq!(token_texts("葛\u{E0100}城市"), ["葛城市", "城市", "市"]);
    assert_eq!(tokens("葛\u{E0100}城")[0].1, "葛\u{E0100}");
    assert_eq!(token_texts("ក\u{200B}ខគ"), ["កខគ", "ខគ", "គ"], "a hint for line breaking");
    assert_eq!(token_texts("漢\u{200B}字"), ["漢", "字"], "no hint where a line may break anywhere");
    assert_eq!(token_texts("漢\u{301}字"), ["漢字", "字"]);
}

#[test]
fn a_piece_is_a_phrase_of_tokens() {
    assert_eq!(phrase("录", false), "0:录* 1");
    assert_eq!(phrase("登录", false), "0:登录* 2");
    assert_eq!(phrase("登录服", false), "0:登录服 3");
    assert_eq!(phrase("我们修改", false), "0:我们修 1:们修改 4");
    assert_eq!(phrase("我们修改了登录服", false), "0:我们修 2:修改了 4:了登录 5:登录服 8");
    assert_eq!(phrase("检查apiKey", false), "0:检查 2:apikey 3");
    assert_eq!(phrase("请检查apiKey配", false), "0:请检查 3:apikey 4:配* 5");
    assert_eq!(phrase("评审会议-排期", false), "0:评审会 1:审会议 2:会议 4:排期* 6");
    assert_eq!(phrase("foo-ba", true), "0:foo 1:ba* 2");
    assert_eq!(phrase("foo-会", true), "0:foo 1:会* 2");
    assert_eq!(phrase("。、", false), "0");
}

#[test]
fn emoji_are_found_beside_words() {
    assert_eq!(token_texts("发布🎉👍\u{FE0F}ok"), ["发布", "布", "ok", "🎉👍", "👍"]);
    assert_eq!(token_texts("👨\u{200D}👩\u{200D}👧 x"), ["x", "👨👩👧", "👩👧", "👧"]);
    assert_eq!(token_texts("🤖x"), ["🤖x", "🤖"], "a word of `unicode-word`, and an emoji");
    assert_eq!(phrase("🎉", false), "0:🎉* 1");
    assert_eq!(phrase("👨\u{200D}👩\u{200D}👧", false), "0:👨👩👧 3");
    assert_eq!(phrase("👍🏽", false), "0:👍🏽* 2");
    assert_eq!(phrase("ok🎉", false), "0:ok 1", "as in `unicode-word`");
    assert_eq!(phrase("🤖x", false), "0:🤖x 1");
}

#[test]
fn the_tables_are_unicodes_properties() {
    let scripts = "Han Hiragana Katakana Bopomofo Hangul Yi Tangut Nushu Khitan_Small_Script Thai Lao Khmer Myanmar Tai_Le \
                   New_Tai_Lue Tai_Tham Tai_Viet Ahom Tibetan Javanese Balinese";
    let scripts: String = scripts.split_whitespace().map(|script| format!(r"\p{{Script={script}}}")).collect();
    let unspaced = Regex::new(&format!(r"^[[{scripts}]&&[\p{{L}}\p{{M}}\p{{N}}]]$")).unwrap();
    let shared = "\u{3006}\u{302A}\u{302B}\u{302C}\u{302D}〱〲〳〴〵〼\u{3099}\u{309A}ー\u{A9CF}";
    let emoji = Regex::new(r"^[\p{Extended_Pictographic}\p{Regional_Indicator}\p{Emoji_Modifier}--[©®]]$").unwrap();
    let unassigned = Regex::new(r"^\p{Cn}$").unwrap();
    for c in '\0'..=char::MAX {
        let text = c.to_string();
        if text.nfkc().next() != Some(c) || unassigned.is_match(&text) && !emoji.is_match(&text) {
            continue;
        }
        // Between letters: a run stands alone, a word swallows or splits.
        let tokens = token_texts(&format!("a{c}b"));
        let is_unspaced = unspaced.is_match(&text) || shared.contains(c);
        assert_eq!(tokens.len() == 3 && tokens[1] == text, is_unspaced, "{c:?} U+{:X}", c as u32);
        let is_emoji = emoji.is_match(&text);
        let in_emoji_line = tokens.len() > 1 && tokens.last() == Some(&text);
        if !('\u{E0020}'..='\u{E007F}').contains(&c) {
            assert_eq!(in_emoji_line, is_emoji && !is_unspaced, "{c:?} U+{:X}", c as u32);
        }
        if is_unspaced {
            // Nothing is lost by not folding them.
            let mut words = Vec::new();
            UnicodeWord.tokenize(&text, &mut |token| words.push(token.text.to_owned()));
            assert!(words.is_empty() || words == [text], "{c:?}");
        }
    }
}

/// What a text or piece is for a plain scan: its runs and words with NUL around words and between runs.
pub(crate) struct PlainScan {
    runs: Regex,
}

impl PlainScan {
    pub(crate) fn new() -> Self {
        let scripts =
            r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}";
        let letters =
            format!(r"[[{scripts}]&&[\p{{L}}\p{{M}}\p{{N}}]]|[ー〱-〵〆〼\u{{3099}}\u{{309A}}\u{{302A}}-\u{{302D}}]");
        Self { runs: Regex::new(&format!("(?:{letters})+")).unwrap() }
    }

    /// The runs (`true`) and words of a text, in order.
    pub(crate) fn units(&self, text: &str) -> Vec<(bool, String)> {
        let text: String = text.nfkc().collect();
        let mut units = Vec::new();
        let words = |text: &str, units: &mut Vec<(bool, String)>| {
            UnicodeWord.tokenize(text, &mut |token| units.push((false, token.text.to_owned())));
        };
        let mut at = 0;
        for run in self.runs.find_iter(&text) {
            words(&text[at..run.start()], &mut units);
            units.push((true, run.as_str().to_owned()));
            at = run.end();
        }
        words(&text[at..], &mut units);
        units
    }

    fn text(&self, text: &str) -> String {
        self.units(text).into_iter().fold("\0".to_owned(), |line, (_, unit)| line + &unit + "\0")
    }

    /// What a text must contain; `None` when the piece has nothing to search.
    fn piece(&self, piece: &str) -> Option<String> {
        let units = self.units(piece);
        let (first, last) = (units.first()?, units.last()?);
        let line = units.iter().map(|(_, unit)| unit.as_str()).collect::<Vec<_>>().join("\0");
        // Runs of the text may begin before and end after; words may not.
        let edge = |unit: &(bool, String)| if unit.0 { "" } else { "\0" };
        Some(format!("{}{line}{}", edge(first), edge(last)))
    }
}

fn store(folder: &tempfile::TempDir, analyzer: &str) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    options.analyzer = analyzer.to_owned();
    options.redaction = Redaction::off();
    Engine::open(folder.path(), options).unwrap()
}

/// Stores messages; message *n* has id *n*.
fn fill(engine: &Engine, first: usize, texts: &[String]) {
    for (chunk, texts) in texts.chunks(200).enumerate() {
        let lines = texts.iter().enumerate().map(|(i, text)| {
            let content = serde_json::json!([{ "type": "text", "text": text }]);
            serde_json::json!({ "type": "message", "id": (first + chunk * 200 + i).to_string(),
                "message": { "role": "user", "content": content } })
            .to_string()
            .into_bytes()
        });
        let key = SessionKey::parse(&format!("agent:main:{first}-{chunk}")).unwrap();
        let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
        for result in engine.append(AppendRequest::new(key, lines.collect()), now).unwrap() {
            result.unwrap();
        }
    }
}

fn ids(hits: &[Hit]) -> BTreeSet<usize> {
    hits.iter().map(|hit| hit.message_id.as_str().parse().unwrap()).collect()
}

/// Half of the messages in segments, half in the tail.
fn fill_both(engine: &Engine, texts: &[String]) {
    let (old, new) = texts.split_at(texts.len() / 2);
    fill(engine, 0, old);
    engine.checkpoint().unwrap();
    fill(engine, old.len(), new);
}

/// 1 to 8 characters of a random text, where that can be asked for.
pub(crate) fn draw(random: &mut Random, texts: &[String], num_chars: usize) -> String {
    loop {
        let text: Vec<char> = texts[random.below(texts.len())].chars().collect();
        if text.len() < num_chars {
            continue;
        }
        let start = random.below(text.len() - num_chars + 1);
        let query: String = text[start..start + num_chars].iter().collect();
        if !query.trim_matches(sessions_search::__internal::is_js_space).is_empty() {
            return query;
        }
    }
}

/// Whether the plain scan may miss what `cjk` finds beside words.
pub(crate) fn has_emoji(piece: &str) -> bool {
    static EMOJI: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]").unwrap());
    EMOJI.is_match(piece)
}

/// Every query's hits are those of the plain scan. Gives how many queries found something.
fn compare_with_scan(texts: &[String], queries: impl Iterator<Item = String>) -> usize {
    const SHOWN: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let engine = store(&folder, "cjk");
    fill_both(&engine, texts);
    let scan = PlainScan::new();
    let lines: Vec<String> = texts.iter().map(|text| scan.text(text)).collect();
    let mut hits = 0;
    for query in queries {
        let pieces: Vec<String> =
            query.split(sessions_search::__internal::is_js_space).filter_map(|piece| scan.piece(piece)).collect();
        let is_hit = |line: &String| !pieces.is_empty() && pieces.iter().all(|piece| line.contains(piece.as_str()));
        let expected: BTreeSet<usize> =
            lines.iter().enumerate().filter(|(_, line)| is_hit(line)).map(|(i, _)| i).collect();
        let mut request = SearchRequest::new(query.as_str());
        request.limit = SHOWN;
        request.explain = true;
        let answer = engine.search(&request).unwrap();
        let found = ids(&answer.results);
        if expected.len() <= SHOWN {
            assert_eq!(found, expected, "{query:?} as {pieces:?}");
            assert!(!answer.truncated);
        } else {
            // The first are shown; of all of them there are as many as there should be.
            assert!(found.len() == SHOWN && answer.truncated && found.is_subset(&expected), "{query:?}");
        }
        let explained = answer.explain.map_or(Vec::new(), |explain| explain.pieces);
        for (piece, explained) in pieces.iter().zip(&explained) {
            let n = lines.iter().filter(|line| line.contains(piece.as_str())).count();
            assert_eq!(explained.n, n as u64, "{piece:?} of {query:?}");
        }
        for hit in &answer.results {
            assert!(!hit.highlights.is_empty(), "{query:?}: nothing is marked in {:?}", hit.snippet);
        }
        hits += usize::from(!expected.is_empty());
    }
    hits
}

/// Texts that hold much of what can go wrong, of few characters, so that they meet.
pub(crate) fn invented(seed: u64, num_texts: usize) -> Vec<String> {
    const PIECES: &[&str] = &[
        "会",
        "议",
        "会议",
        "项目",
        "評審",
        "か",
        "がく",
        "か\u{3099}",
        "カ",
        "ｶﾞ",
        "ー",
        "ｰ",
        "한",
        "국",
        "각",
        "한국",
        "ㅋㅋ",
        "ที่",
        "น้ำ",
        "ก",
        "กำ",
        "ា",
        "ខ",
        "\u{200B}",
        "々",
        "〇",
        "㍿",
        "①",
        "ａｐｉ",
        "api",
        "Key",
        "a",
        "b",
        "é",
        "e\u{301}",
        "、",
        "。",
        " ",
        " ",
        "-",
        ".",
        "_",
        "\n",
        "🎉",
        "🤖",
        "👍🏽",
        "\u{FE0F}",
        "\u{301}",
        "葛\u{E0100}",
        "𠮷",
        "1",
        "２",
    ];
    let mut random = Random::new(seed);
    (0..num_texts)
        .map(|_| (0..1 + random.below(14)).map(|_| random.pick(PIECES)).collect::<String>())
        .filter(|text| !text.trim_matches(sessions_search::__internal::is_js_space).is_empty())
        .collect()
}

#[test]
fn invented_texts_are_found_as_a_plain_scan_finds_them() {
    let mut texts = invented(7, 3_000);
    // The scan knows neither selectors nor hints nor emoji.
    let unknown: &[char] = &['\u{200B}', '\u{FE0F}', '\u{301}', '\u{E0100}'];
    texts.retain(|text| !text.contains(unknown));
    let mut random = Random::new(8);
    let mut lengths = (1..=8).cycle();
    let queries: Vec<String> = std::iter::repeat_with(|| draw(&mut random, &texts, lengths.next().unwrap()))
        .filter(|query| !query.split_whitespace().any(has_emoji))
        .take(2_000)
        .collect();
    let hits = compare_with_scan(&texts, queries.into_iter());
    assert!(hits > 1_500, "{hits}");
}

/// Chat, sentences and the declaration in Chinese, Japanese, Korean and Thai, and texts that mix them with words.
fn multilingual(folder: &std::path::Path, num_texts: usize) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let every = |messages: Vec<Message>, step: usize| messages.into_iter().step_by(step).map(|message| message.text);
    texts.extend(every(corpus::gzipped(folder, "chat", "lang"), 6));
    for language in ["zh", "ja", "ko", "th"] {
        let sentences = std::fs::read_to_string(folder.join(format!("lingua.{language}.txt"))).unwrap();
        texts.extend(sentences.lines().step_by(2).map(str::to_owned));
    }
    let unspaced = Regex::new(r"\p{Han}|\p{Hangul}|\p{Thai}|\p{Hiragana}|\p{Khmer}|\p{Myanmar}").unwrap();
    let declaration = corpus::gzipped(folder, "udhr", "code");
    texts.extend(declaration.into_iter().map(|m| m.text).filter(|text| unspaced.is_match(text)).step_by(2));
    // What people write: the same glued to names and numbers.
    let mut random = Random::new(11);
    for i in 0..800 {
        let glued = ["apiKey", "README.md", " v2.1 ", "GPT-5", "42", "naïve", "、OK", "e\u{301}tude"];
        let text: Vec<char> = texts[random.below(texts.len())].chars().collect();
        let at = random.below(text.len() + 1);
        let (before, after) = text.split_at(at);
        let mixed = before.iter().collect::<String>() + glued[i % glued.len()] + &after.iter().collect::<String>();
        texts.push(mixed);
    }
    for i in (1..texts.len()).rev() {
        texts.swap(i, random.below(i + 1));
    }
    texts.truncate(num_texts);
    texts
}

#[test]
fn five_thousand_queries_are_answered_as_a_plain_scan_answers_them() {
    let Some(data) = test_data("five_thousand_queries_are_answered_as_a_plain_scan_answers_them") else { return };
    let mut texts = multilingual(&data.join("multilingual"), 7_000);
    // Where lines may break in Thai and Khmer the scan would see a separator.
    texts.retain(|text| !text.contains('\u{200B}'));
    let mut random = Random::new(12);
    let queries: Vec<String> = (0..5_500).map(|i| draw(&mut random, &texts, 1 + i % 8)).collect();
    let hits = compare_with_scan(&texts, queries.into_iter());
    assert!(hits > 5_000, "{hits}");
}

#[test]
fn other_scripts_are_found_as_unicode_word_finds_their_normalised_texts() {
    let Some(data) = test_data("other_scripts_are_found_as_unicode_word_finds_their_normalised_texts") else { return };
    let mut texts = Vec::new();
    for language in ["ar", "de", "el", "en", "es", "fr", "he", "hi", "pl", "ru", "tr", "vi"] {
        let path = data.join(format!("multilingual/lingua.{language}.txt"));
        texts.extend(std::fs::read_to_string(path).unwrap().lines().step_by(4).map(str::to_owned));
    }
    let unspaced =
        Regex::new(r"\p{Han}|\p{Hangul}|\p{Thai}|\p{Hiragana}|\p{Katakana}|\p{Extended_Pictographic}").unwrap();
    texts.retain(|text| text.chars().all(|c| c.is_ascii() || !unspaced.is_match(&c.to_string())));
    let normalised: Vec<String> = texts.iter().map(|text| text.nfkc().collect()).collect();
    // Decomposed texts on one side, composed ones on the other.
    let decomposed: Vec<String> = texts.iter().map(|text| text.nfd().collect()).collect();
    let (cjk_folder, word_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (cjk, words) = (store(&cjk_folder, "cjk"), store(&word_folder, "unicode-word"));
    fill_both(&cjk, &decomposed);
    fill_both(&words, &normalised);
    let mut random = Random::new(13);
    let mut hits = 0;
    for _ in 0..1_500 {
        let text = &texts[random.below(texts.len())];
        let pieces: Vec<&str> = text.split_whitespace().collect();
        let start = random.below(pieces.len());
        let query = pieces[start..].iter().take(1 + random.below(3)).copied().collect::<Vec<_>>().join(" ");
        let normal: String = query.nfkc().collect();
        let mut request = SearchRequest::new(query.as_str());
        request.limit = 100;
        request.prefix = random.below(4) == 0;
        let found = cjk.search(&request).unwrap();
        request.query = normal;
        let wanted = words.search(&request).unwrap();
        let of = |hits: &[Hit]| -> Vec<(String, u64)> {
            hits.iter().map(|hit| (hit.message_id.as_str().to_owned(), hit.score.to_bits())).collect()
        };
        assert_eq!(of(&found.results), of(&wanted.results), "{query:?}");
        hits += usize::from(!found.results.is_empty());
    }
    assert!(hits > 1_400, "{hits}");
}

fn found(engine: &Engine, query: &str) -> BTreeSet<usize> {
    ids(&engine.search(&SearchRequest::new(query)).unwrap().results)
}

#[test]
fn composed_and_decomposed_texts_find_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let engine = store(&folder, "cjk");
    let words = ["Tiếng Việt đẹp", "한국어를 배우다", "プログラムがパン", "gạch ngang"];
    let texts: Vec<String> =
        words.iter().flat_map(|text| [text.nfc().collect(), text.nfd().collect::<String>()]).collect();
    fill_both(&engine, &texts);
    for (i, text) in words.iter().enumerate() {
        let both = BTreeSet::from([2 * i, 2 * i + 1]);
        for form in [text.nfc().collect::<String>(), text.nfd().collect()] {
            assert_eq!(found(&engine, &form), both, "{form:?}");
            let part: String = form.split(' ').next().unwrap().to_owned();
            assert_eq!(found(&engine, &part), both, "{part:?}");
        }
    }
    assert_eq!(found(&engine, "tieng"), BTreeSet::from([0, 1]));
    assert_eq!(found(&engine, "ﾌﾟﾛｸﾞﾗﾑ"), BTreeSet::from([4, 5]), "half-width kana");
    assert_eq!(found(&engine, "か"), BTreeSet::new(), "が is another character than か");
}

#[test]
fn a_filter_a_prefix_and_an_order_hold_for_parts_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let engine = store(&folder, "cjk");
    let texts = ["登录服务 server", "登录登录 serving", "服务 登录", "其他"].map(str::to_owned);
    fill_both(&engine, &texts);
    let search = |query: &str, change: &dyn Fn(&mut SearchRequest)| {
        let mut request = SearchRequest::new(query);
        request.explain = true;
        change(&mut request);
        engine.search(&request).unwrap()
    };
    let answer = search("登录", &|_| ());
    assert_eq!(answer.results[0].message_id.as_str(), "1", "twice is more than once");
    let explain = answer.explain.unwrap();
    assert_eq!((explain.pieces[0].n, explain.documents), (3, 4));
    assert_eq!(answer.results[0].explain.as_ref().map(|e| (e.length, e.f.clone())), Some((5, vec![2])));
    assert_eq!(ids(&search("登录 serv", &|request| request.prefix = true).results), BTreeSet::from([0, 1]));
    assert_eq!(ids(&search("登", &|request| request.limit = 1).results).len(), 1);
    let one_session = |request: &mut SearchRequest| request.session_keys = Some(vec!["agent:main:2-0".into()]);
    assert_eq!(ids(&search("登", &one_session).results), BTreeSet::from([2]));
    let assistants = |request: &mut SearchRequest| request.role = Some(sessions_search::Role::Assistant);
    assert!(search("登", &assistants).results.is_empty());
}

/// The excerpt of the only message.
fn excerpt(text: &str, query: &str, limit: usize) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = store(&folder, "cjk");
    fill(&engine, 0, &[text.to_owned()]);
    let mut request = SearchRequest::new(query);
    request.excerpt_utf16 = Some(limit);
    let hit = engine.search(&request).unwrap().results.remove(0);
    let marked = hit.highlights.iter().map(|range| hit.snippet[range.clone()].to_owned()).collect();
    (hit.snippet, marked)
}

#[test]
fn excerpts_are_measured_in_characters_and_start_with_a_sentence_where_one_is_near() {
    let filler = "窗前明月光疑是地上霜举头望明月低头思故乡".repeat(20);
    let (snippet, marked) = excerpt(&format!("{filler}。我们检查了登录服务。{filler}"), "登录", 300);
    assert_eq!(marked, ["登录"]);
    assert!(snippet.starts_with(" … 我们检查了登录服务。窗前"), "{snippet}");
    assert!(snippet.ends_with(" … "), "{snippet}");
    assert!((100..=126).contains(&snippet.chars().count()), "{}", snippet.chars().count());
    // A short text is shown whole, a match in the middle of a long sentence with what is around it.
    assert_eq!(excerpt("昨晚我们修改了登录服务", "登录", 300).0, "昨晚我们修改了登录服务");
    let (snippet, _) = excerpt(&format!("{filler}登录{filler}"), "登录", 300);
    let before = snippet.split_once("登录").unwrap().0.chars().count();
    assert!((50..=70).contains(&before), "{snippet}");
    // Words are left whole.
    let words = "the quick brown fox jumps over the lazy dog ".repeat(40);
    let (snippet, marked) = excerpt(&format!("{words}配置 {words}"), "配置", 300);
    assert_eq!(marked, ["配置"]);
    let known: BTreeSet<&str> = words.split_whitespace().chain(["配置", "…"]).collect();
    assert!(snippet.split_whitespace().all(|word| known.contains(word)), "{snippet}");
}

#[test]
fn the_stretch_with_the_most_of_the_query_is_shown() {
    let filler = "窗前明月光疑是地上霜".repeat(30);
    let text = format!("登录{filler}登录之后配置{filler}配置");
    let (snippet, marked) = excerpt(&text, "登录 配置", 300);
    assert_eq!(marked, ["登录", "配置"], "{snippet}");
    let (_, marked) = excerpt("あいあいあ", "あいあ", 300);
    assert_eq!(marked, ["あいあいあ"], "what overlaps is one mark");
}

#[test]
fn no_excerpt_cuts_a_grapheme_at_any_length() {
    let family = "👨\u{200D}👩\u{200D}👧";
    let text = format!("{}が{family}น้ำ登录e\u{301}각ที่{}", "か\u{3099}น้ำ🇯🇵각".repeat(40), "葛\u{E0100}👍🏽ที่".repeat(40));
    let whole: BTreeSet<&str> = text.graphemes(true).collect();
    for limit in 1..=320 {
        let (snippet, marked) = excerpt(&text, "登录", limit);
        assert!(snippet.encode_utf16().count() <= limit + 1, "{limit}: {snippet}");
        if limit >= 40 {
            assert_eq!(marked, ["登录"], "{limit}: {snippet}");
            let inner = snippet.strip_prefix(" … ").unwrap_or(&snippet);
            let inner = inner.strip_suffix(" … ").unwrap_or(inner);
            for grapheme in inner.graphemes(true) {
                assert!(whole.contains(grapheme), "{limit}: {grapheme:?} in {snippet}");
            }
        }
    }
    let zalgo = format!("登{}录", "\u{301}\u{302}\u{303}".repeat(2_000));
    let (snippet, _) = excerpt(&zalgo, "登录", 300);
    assert!(snippet.encode_utf16().count() <= 301);
}

#[test]
fn marks_cover_whole_graphemes() {
    let (_, marked) = excerpt("xที่นี่x", "ท", 300);
    assert_eq!(marked, ["ที่"]);
    let (_, marked) = excerpt("ﾌﾟﾛｸﾞﾗﾑ㍿", "グラム", 300);
    assert_eq!(marked, ["ｸﾞﾗﾑ"]);
    let (_, marked) = excerpt("ﾌﾟﾛｸﾞﾗﾑ㍿", "会社", 300);
    assert_eq!(marked, ["㍿"]);
}

#[test]
fn odd_texts_and_queries_make_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let engine = store(&folder, "cjk");
    let texts =
        ["登\0录", "\u{3099}", "登录", &"登".repeat(50_000), &"\u{302A}".repeat(3_000), "\u{FDFA}ﷺ"].map(str::to_owned);
    fill_both(&engine, &texts);
    assert_eq!(found(&engine, "登录"), BTreeSet::from([2]));
    assert_eq!(found(&engine, "登\0录"), BTreeSet::from([0]));
    assert_eq!(found(&engine, &"登".repeat(4_096)), BTreeSet::from([3]));
    assert_eq!(found(&engine, "صلى"), BTreeSet::from([5]), "a ligature is its letters");
    for query in ["\u{200D}", "\u{FE0F}", "。", "…"] {
        let answer = engine.search(&SearchRequest::new(query)).unwrap();
        assert_eq!(answer.reason, Some(sessions_search::EmptyReason::NoSearchableWords), "{query:?}");
    }
}
