//! No answer shows a secret, and no search confirms one (D3; X15 and X16 of the contract). The transcript stays as it was.

use std::fs;
use std::path::Path;

use sessions_search::{
    AgentId, AppendRequest, Engine, HistoryRequest, ImportOptions, OpenOptions, Redaction, SearchRequest, SessionKey,
    Timestamp,
};

use crate::program::fixtures;

const KEY: &str = "agent:main:main";

/// Messages with a secret each, what is left of it, and the secret.
const SECRETS: &[(&str, &str, &str)] = &[
    ("use ACME_API_KEY={} there", "use ACME_API_KEY=zk-liv…cdef there", "zk-live-0123456789abcdef"),
    ("login with --password {} please", "login with --password *** please", "hunter2river"),
    ("send Authorization: Bearer {}", "send Authorization: Bearer 9z8y7x…1r0q", "9z8y7x6w5v4u3t2s1r0q"),
    ("postgres://svc:{}@db/x", "postgres://svc:correc…aple@db/x", "correcthorsebatterystaple"),
    ("try sk-{} instead", "try sk-q7w…p0a1 instead", "q7w8e9r0t1y2u3i4o5p0a1"),
    (
        "{\"args\":\"{\\\"token\\\":\\\"{}\\\"}\"}",
        "{\"args\":\"{\\\"token\\\":\\\"qwerty…jklz\\\"}\"}",
        "qwertyuiopasdfghjklz",
    ),
    ("密码是 password={}，不要告诉别人", "密码是 password=***，不要告诉别人", "p4ssw0rd-kelpy"),
    ("otters 🦦 {} 🦦", "otters 🦦 987654…KKll 🦦", "9876543:AAbbCCddEEffGGhhIIjjKKll"),
];

fn open(root: &Path, redaction: Redaction) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    options.redaction = redaction;
    Engine::open(root, options).unwrap()
}

fn append(engine: &Engine, texts: &[String]) {
    let line = |(n, text): (usize, &String)| {
        serde_json::json!({ "type": "message", "id": format!("m{n}"), "message": { "role": "user", "content": text } })
            .to_string()
            .into_bytes()
    };
    let lines = texts.iter().enumerate().map(line).collect();
    let request = AppendRequest::new(SessionKey::parse(KEY).unwrap(), lines);
    for stored in engine.append(request, Timestamp::from_millis(1_785_000_000_000).unwrap()).unwrap() {
        stored.unwrap();
    }
}

/// How often each word is found, and as the start of a word.
fn found(engine: &Engine, query: &str) -> usize {
    [false, true]
        .into_iter()
        .map(|prefix| {
            let mut request = SearchRequest::new(query);
            request.prefix = prefix;
            engine.search(&request).unwrap().results.len()
        })
        .sum()
}

/// Every part of six characters but the first, which a mask may show.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    (1..=secret.len() - 6).map(|at| &secret[at..at + 6])
}

#[track_caller]
fn assert_hidden(text: &str, secret: &str) {
    for part in parts(secret) {
        assert!(!text.contains(part), "{part:?} of {secret} is shown in {text}");
    }
}

fn history(engine: &Engine) -> sessions_search::HistoryAnswer {
    let mut request = HistoryRequest::new(KEY);
    request.include_tools = true;
    engine.history(&request).unwrap()
}

#[test]
fn no_search_confirms_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Redaction::on());
    let texts: Vec<String> = SECRETS.iter().map(|(text, _, secret)| text.replacen("{}", secret, 1)).collect();
    append(&engine, &texts);
    // From memory, then from the index on disk, then after opening again.
    for round in 0..3 {
        for (_, _, secret) in SECRETS {
            assert_eq!(found(&engine, secret), 0, "{round}: {secret}");
            for length in 6..=secret.len() {
                for at in 1..=secret.len() - length {
                    let part = &secret[at..at + length];
                    assert_eq!(found(&engine, part), 0, "{round}: {part} of {secret}");
                }
            }
        }
        if round == 0 {
            engine.checkpoint().unwrap();
        }
    }
    for (n, (_, masked, _)) in SECRETS.iter().enumerate() {
        let page = history(&engine);
        assert!(page.content_redacted);
        assert_eq!(page.messages[n].text, *masked);
    }
    engine.close().unwrap();

    let raw = fs::read(folder.path().join("agents/main/transcripts.redb")).unwrap();
    let holds = |bytes: &[u8], secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
    for (_, _, secret) in SECRETS {
        assert!(holds(&raw, secret), "the transcript stays untouched");
        for entry in fs::read_dir(folder.path().join("agents/main/index")).unwrap() {
            assert!(!holds(&fs::read(entry.unwrap().path()).unwrap(), secret), "{secret} is in the index");
        }
    }
}

#[test]
fn x15_no_excerpt_cuts_a_secret_open() {
    let filler = |word: &str, count: usize| vec![word; count].join(" ");
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Redaction::on());
    let secret = "zk-0a1b-2c3d-4e5f-6g7h-8i9j-0k1l-2m3n-4o5p-6q7r-8s9t-0u1v-2w3x-4y5z-6a7b-8c9d";
    let mut texts = Vec::new();
    // The window of 48 tokens begins, ends, or does both inside the secret.
    for before in [0, 1, 20, 40, 46, 47, 48, 49, 60] {
        texts.push(format!(
            "{} otter ACME_TOKEN={secret} river {}",
            filler("kelp", before),
            filler("kelp", 60 - before)
        ));
        texts.push(format!("{} otter sk-{secret} river {}", filler("kelp", before), filler("kelp", 60 - before)));
    }
    append(&engine, &texts);
    for query in ["otter", "river", "otter river", "kelp", "\"otter\" ACME"] {
        for length in 1..=500 {
            let mut request = SearchRequest::new(query);
            request.limit = 100;
            request.excerpt_utf16 = Some(length);
            let answer = engine.search(&request).unwrap();
            assert!(!answer.results.is_empty(), "{query}");
            for hit in answer.results {
                assert_hidden(&hit.snippet, secret);
            }
        }
    }
    let mut uncut = SearchRequest::new("otter");
    uncut.excerpt_utf16 = None;
    for hit in engine.search(&uncut).unwrap().results {
        assert_hidden(&hit.snippet, secret);
    }
}

#[test]
fn x16_no_body_of_a_private_key_is_shown() {
    let body: Vec<String> = (0..60).map(|n| format!("b0dy{n:02}Otter{n:02}River+{n:02}/kelp{n:02}")).collect();
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", body.join("\n"));
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Redaction::on());
    append(&engine, &[format!("the otter key:\n{key}\nmind the river"), format!("```\n{key}\n```")]);
    for length in 1..=500 {
        for query in ["private key", "begin", "otter", "river"] {
            let mut request = SearchRequest::new(query);
            request.excerpt_utf16 = Some(length);
            for hit in engine.search(&request).unwrap().results {
                assert!(!hit.snippet.contains("b0dy") && !hit.snippet.contains("kelp"), "{}", hit.snippet);
            }
        }
    }
    for line in &body {
        assert_eq!(found(&engine, line), 0);
    }
    let page = history(&engine);
    assert_eq!(
        page.messages[0].text,
        "the otter key:\n-----BEGIN PRIVATE KEY-----\n…redacted…\n-----END PRIVATE KEY-----\nmind the river"
    );
}

#[test]
fn history_masks_every_block_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Redaction::on());
    let line = serde_json::json!({ "type": "message", "id": "a1", "message": { "role": "assistant", "content": [
        { "type": "thinking", "thinking": "the token=0123456789abcdef is needed" },
        { "type": "toolCall", "id": "t", "name": "exec", "arguments": { "env": { "ACME_TOKEN": "0123456789abcdef" } } },
        { "type": "text", "text": "set password=hunter2river now" },
    ]}});
    let request = AppendRequest::new(SessionKey::parse(KEY).unwrap(), vec![line.to_string().into_bytes()]);
    engine.append(request, Timestamp::from_millis(1_785_000_000_000).unwrap()).unwrap();
    let page = history(&engine);
    assert!(page.content_redacted);
    let json = serde_json::to_string(&page).unwrap();
    assert_hidden(&json, "0123456789abcdef");
    assert_hidden(&json, "hunter2river");
    assert_eq!(page.messages[0].text, "set password=*** now");

    let line = serde_json::json!({ "type": "message", "id": "a2", "message": { "role": "assistant", "content": [
        { "type": "text", "text": "-----BEGIN PRIVATE KEY-----\nb0dyOtter" },
        { "type": "image", "data": "AAAA" },
        { "type": "text", "text": "b0dyRiver\n-----END PRIVATE KEY-----" },
    ]}});
    let request = AppendRequest::new(SessionKey::parse(KEY).unwrap(), vec![line.to_string().into_bytes()]);
    engine.append(request, Timestamp::from_millis(1_785_000_000_000).unwrap()).unwrap();
    let json = serde_json::to_string(&history(&engine)).unwrap();
    assert!(!json.contains("b0dy"), "{json}");
    assert!(json.contains("-----BEGIN PRIVATE KEY-----\\n…redacted…\\n-----END PRIVATE KEY-----"), "{json}");

    let calm = tempfile::tempdir().unwrap();
    let engine = open(calm.path(), Redaction::on());
    append(&engine, &["nothing but otters".to_owned()]);
    assert!(!history(&engine).content_redacted);
}

#[test]
fn a_store_that_is_off_behaves_raw_and_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Redaction::off());
    let texts: Vec<String> = SECRETS.iter().map(|(text, _, secret)| text.replacen("{}", secret, 1)).collect();
    append(&engine, &texts);
    engine.close().unwrap();
    // What is asked for when it is opened changes nothing.
    let engine = open(folder.path(), Redaction::on());
    assert!(!engine.redaction().is_on());
    assert_eq!(engine.status().unwrap().pending, []);
    for (n, (_, _, secret)) in SECRETS.iter().enumerate() {
        assert!(found(&engine, secret) > 0, "{secret}");
        assert_eq!(history(&engine).messages[n].text, texts[n]);
    }
    assert!(!history(&engine).content_redacted);
}

#[test]
fn a_store_keeps_its_patterns_and_gives_them_to_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let (redaction, rejected) = Redaction::with_patterns(["holt [0-9]".to_owned(), "(".to_owned()]);
    assert_eq!(rejected.len(), 1);
    let engine = open(folder.path(), redaction.clone());
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    engine.import(&[fixtures()], &ImportOptions::default(), now, &mut |_| {}).unwrap();
    assert_eq!(found(&engine, "holt 5"), 0);
    engine.close().unwrap();

    for agent in ["main", "work"] {
        let mut options = OpenOptions::default();
        options.agent = AgentId::parse(agent).unwrap();
        let engine = Engine::open(folder.path(), options).unwrap();
        assert_eq!(engine.redaction(), redaction, "{agent}");
        assert_eq!(found(&engine, "holt 5"), 0);
        assert_eq!(engine.status().unwrap().pending, []);
    }
}
