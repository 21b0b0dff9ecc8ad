//! The proofs of the rows, the contract's examples (§8.6) and scenarios (§9.10), and what holds of every text.

use proptest::prelude::*;

use super::mask::Secrets;
use super::rule::{Compiled, Rule};
use super::{Redaction, Redactor, labels, tokens};

fn rules() -> impl Iterator<Item = &'static Rule> {
    let rules = labels::PARAMETERS.iter().chain(tokens::URL_PASSWORDS).chain(labels::LABELS).chain(tokens::TOKENS);
    rules.chain([&tokens::LONG_RUN])
}

fn masked_by(rule: &'static Rule, text: &str) -> Option<String> {
    let mut secrets = Secrets::default();
    Compiled::new(rule).find(text, &[], &mut secrets);
    secrets.masked(text)
}

fn built_in() -> Redactor {
    Redactor::new(&Redaction::on()).unwrap()
}

fn with_pattern(pattern: &str) -> Redactor {
    let (choice, rejected) = Redaction::with_patterns([pattern.to_owned()]);
    assert_eq!(rejected, [], "{pattern}");
    Redactor::new(&choice).unwrap()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let redactor = built_in();
    let masked = redactor.redact(text);
    assert_eq!(masked, expected, "{text}");
    assert_eq!(redactor.redact(&masked), masked, "again: {text}");
}

#[track_caller]
fn stays(text: &str) {
    check(text, text);
}

#[test]
fn x1_every_rule_proves_itself() {
    let mut failures = Vec::new();
    for rule in rules() {
        let name = rule.name;
        let trigger = regex::Regex::new(rule.trigger).unwrap();
        assert!(!rule.proof.masked.is_empty() && !rule.proof.kept.is_empty(), "{name} has no proof");
        for (text, expected) in rule.proof.masked {
            let masked = masked_by(rule, text);
            if masked.as_deref() != Some(*expected) {
                failures.push(format!("{name}: {text}\n    became {masked:?}\n    not    {expected:?}"));
            }
            if !trigger.is_match(text) {
                failures.push(format!("{name} is not triggered by {text}"));
            }
        }
        for text in rule.proof.kept {
            if let Some(masked) = masked_by(rule, text) {
                failures.push(format!("{name}: {text}\n    became {masked:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_rules_together_mask_what_each_of_them_does() {
    let redactor = built_in();
    for rule in rules() {
        for (text, _) in rule.proof.masked {
            let masked = redactor.redact(text);
            assert_ne!(masked, *text, "{}: not reached", rule.name);
            assert_eq!(redactor.redact(&masked), masked, "{}: {text} again", rule.name);
        }
    }
}

#[test]
fn the_examples_of_the_contract() {
    check("ACME_API_KEY=zk-live-0123456789abcdef", "ACME_API_KEY=zk-liv…cdef");
    check("ACME_TOKEN=tiny", "ACME_TOKEN=***");
    stays("ACME_TOKEN=$ACME_TOKEN");
    check("ACME_TOKEN=$OTHER_TOKEN", "ACME_TOKEN=***");
    check(r#"ACME_SECRET="seventeen-chars-x""#, r#"ACME_SECRET="***""#);
    check(r#"ACME_SECRET="eighteen-chars-xyz""#, r#"ACME_SECRET="eighte…-xyz""#);
    check(r#"{"accessToken":"qwertyuiopasdfghjklz","n":1}"#, r#"{"accessToken":"qwerty…jklz","n":1}"#);
    check("deploy --password hunter2 --force", "deploy --password *** --force");
    check("--token=abcdefghijklmnopqrst", "--token=abcdef…qrst");
    check("Authorization: Basic c2VjcmV0", "Authorization: Basic ***");
    check("Authorization: Bearer 0123456789abcdefghij", "Authorization: Bearer 012345…ghij");
    check(r#"Authorization: Digest username="u", nonce="n", response="r""#, "Authorization: Digest ***");
    check("postgres://svc:correcthorsebatterystaple@db/x", "postgres://svc:correc…aple@db/x");
    check("https://u:pw@host/", "https://u:***@host/");
    check("https://h/p?access_token=abcdefghijklmnopqr&x=1", "https://h/p?access_token=abcdef…opqr&x=1");
    check("user=bo&password=longlonglonglonglong", "user=bo&password=***");
    check("9876543:AAbbCCddEEffGGhhIIjjKKll", "987654…KKll");
    stays("sk-abc");
    check(
        "-----BEGIN PRIVATE KEY-----\nb3R0ZXI\nc2Vh\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n…redacted…\n-----END PRIVATE KEY-----",
    );
    stays("-----BEGIN PRIVATE KEY-----\nb3R0ZXI\nc2Vh\n");
}

/// The prefixes of contract §8.5 with the fewest characters that must follow.
#[test]
fn every_vendor_prefix_masks_from_its_length_on() {
    let redactor = built_in();
    let tail = "0t1e2r3s4w5i6m7f8a9r0o1u2t3i4n5t6o7t8h9e0s1e2a3";
    for (length, prefixes) in [
        (8, "sk-"),
        (
            10,
            "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ xoxa- xoxb- xoxp- xoxr- xoxs- xapp- gsk_ ya29. 1//0 pplx- fal_ fc- npm_ \
             pypi- sk_live_ sk_test_ rk_live_ am_ sk_ tvly- exa_ syt_ hsk- mem0_ brv_ hf_ AKID LTAI r8_ bb_live_ dop_v1_ \
             doo_v1_ dor_v1_",
        ),
        (
            20,
            "AIza glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- glffct- GR1348941 \
             gAAAA api_org_ dckr_pat_ dckr_oat_ ATBB",
        ),
        (30, "xai- fw- fw_ fpk_ pat-na1- pat-eu1- apify_api_"),
        (36, "ddp_ ddw_ nfp_"),
        (40, "bkua_ sbp_ CFPAT- dp.st. dp.pt. ATATT ATCTT3 BBDC-"),
        (41, "glsa_"),
    ] {
        for prefix in prefixes.split_whitespace() {
            let token = format!("{prefix}{}", &tail[..length]);
            let masked = redactor.redact(&token).into_owned();
            assert!(!masked.contains(&token[..token.len().min(prefix.len() + 6).max(7)]), "{token} became {masked}");
            let sentence = format!("It is {token}, nothing else.");
            assert_eq!(redactor.redact(&sentence), format!("It is {masked}, nothing else."), "{token}");
            let short = format!("{prefix}{}", &tail[..5]);
            assert_eq!(redactor.redact(&short), short);
            let inside = format!("xy{token}");
            let starts_with_letter = prefix.starts_with(|c: char| c.is_ascii_alphanumeric());
            assert!(!starts_with_letter || redactor.redact(&inside) == inside, "{inside} is another word");
        }
    }
}

#[test]
fn x2_seventeen_and_eighteen_units() {
    check("token=12345678901234567", "token=***");
    check("token=123456789012345678", "token=123456…5678");
    // Nine emoji are eighteen units.
    check("token=🦦🦦🦦🦦🦦🦦🦦🦦🦦", "token=🦦🦦🦦…🦦🦦");
    check("token=🦦🦦🦦🦦🦦🦦🦦🦦", "token=***");
}

#[test]
fn x3_shell_references() {
    for name in ["ACME_TOKEN", "TOKEN", "acme_token"] {
        stays(&format!("{name}=${name}"));
        stays(&format!("{name}=${{{name}}}"));
        stays(&format!("export {name}=\"${{{name}:-}}\""));
        check(&format!("{name}=$OTHER"), &format!("{name}=***"));
        check(&format!("{name}=${{OTHER}}"), &format!("{name}=***"));
        check(&format!("{name}=${{{name}:-x}}y"), &format!("{name}=***"));
    }
    check("ACME_TOKEN=${ACME_TOKEN:-otterotterotter}", "ACME_TOKEN=${ACME…ter}");
}

#[test]
fn x4_json_inside_json_stays_json() {
    let mut text =
        serde_json::json!({ "user": "bo", "password": "ot\"ter\\sea\nriver", "token": "0123456789abcdefghij" });
    for depth in 0..4 {
        let line = text.to_string();
        let masked = built_in().redact(&line).into_owned();
        let mut value: serde_json::Value = serde_json::from_str(&masked).unwrap_or_else(|e| panic!("{e}: {masked}"));
        for _ in 0..depth {
            let inner = value["line"].as_str().unwrap().to_owned();
            value = serde_json::from_str(&inner).unwrap_or_else(|e| panic!("{e}: {inner}"));
        }
        assert_eq!(value, serde_json::json!({ "user": "bo", "password": "***", "token": "012345…ghij" }), "{line}");
        text = serde_json::json!({ "line": line });
    }
}

#[test]
fn x5_prose_about_flags_and_headers() {
    for text in [
        "use --password or --password-file",
        "the authorization model is open",
        "Pass --token, or set it in the file. The --secret flag is optional; --api-key is not.",
        "A bearer of good news, a cookie and a secret garden: no password was needed",
    ] {
        stays(text);
    }
}

#[test]
fn x6_structured_authorization() {
    check(
        "Authorization: Digest username=\"u\", uri=/sea, response=\"0123456789\"; status=401\nnext",
        "Authorization: Digest ***; status=401\nnext",
    );
    check("Authorization: Hawk id=\"otter\", mac=\"sea\"", "Authorization: Hawk ***");
    check("Authorization: Basic b3R0ZXI6c2Vh==, status=401", "Authorization: Basic ***, status=401");
    check("Authorization: Token otter-river-sea-0123, status=401", "Authorization: Token otter-…0123, status=401");
}

#[test]
fn x7_obfuscated_names() {
    for name in
        ["client%5Fsecret", "client_se+cret", "client_se\u{200b}cret", "client%5Fse%E2%80%8Bcret", "Client-Secret"]
    {
        check(&format!("GET /cb?a=1&{name}=otter-sea&b=2"), &format!("GET /cb?a=1&{name}=***&b=2"));
        check(&format!("body: {name}=otter-sea&b=2"), &format!("body: {name}=***&b=2"));
    }
}

#[test]
fn x8_a_quote_that_nobody_closes() {
    check("ACME_TOKEN=\"otter sea", "ACME_TOKEN=\"*** sea");
    check("password: 'otter\nsea", "password: '***\nsea");
    check("{\"token\":\"0123456789abcdefghij", "{\"token\":\"012345…ghij");
}

#[test]
fn x9_ordinary_words_that_share_a_prefix() {
    for text in [
        "npm_config glpat-docs sk-learn task-manager risk-assessment-plan sk_buff am_pm hf_hub_download xai-lab fw-tooshort",
        "fixturefw-0t1e2r3s4w5i6m7f8a9r0o1u2t3i4n5t6o7",
        "key: \"llm\"",
        "failed: code=E42",
        "/p?signal=1&state=2&signature_algorithm=3",
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6f1c2f6e-2b1c-4d5e-8f3a-0123456789ab",
        "compass=north, tokens=5, token_count: 7, monkey=1",
        "Token::new(secret::Vault::open(), password::hash)",
        "sha256:4b825dc642cb6eb9a060e54bf8d69288fbee4904 at 10:00:00",
    ] {
        stays(text);
    }
}

#[test]
fn x10_data_urls_are_byte_identical() {
    let data =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB/gAAAAotterotterotterotter/AKIAOTTEROTTEROTTER1/sk-otterotterotter+AAAA==";
    stays(&format!("![x](data:image/png;base64,{data})"));
    stays(&format!("{{\"image_url\":\"data:application/octet-stream;base64,{data}\"}}"));
    // What stands outside is masked all the same.
    check(&format!("data:a/b;base64,{data} token=otter"), &format!("data:a/b;base64,{data} token=***"));
}

#[test]
fn x11_no_border_inside_a_long_text() {
    let token = "sk-0t1e2r3s4w5i6m7f8a9r0o1u2t3";
    for border in [16_384, 32_768, 65_536] {
        for shift in 0..token.len() + 2 {
            let before = "x".repeat(border - shift - 1);
            let masked = built_in().redact(&format!("{before} {token} {}", "y".repeat(40_000))).into_owned();
            assert!(masked[border - shift - 1..].starts_with(" sk-0t1…u2t3 y"), "{border} {shift}");
        }
    }
}

#[test]
fn x12_an_emoji_at_the_border_of_a_hint() {
    check("token=abcde😀xxxxxxxxxwxyz", "token=abcde…wxyz");
    check("token=abcdefxxxxxxxxx😀abc", "token=abcdef…abc");
}

#[test]
fn x14_patterns_of_the_operator() {
    let given = ["OTTER-[0-9]+", "/sea-([a-z]+)/", "(", " ", "", "/x/q", "(?<=a)b", "a{999999}{999999}"];
    let (choice, rejected) = Redaction::with_patterns(given.map(String::from));
    assert_eq!(choice.patterns(), ["OTTER-[0-9]+", "/sea-([a-z]+)/"]);
    let reasons: Vec<_> = rejected.iter().map(|r| (r.pattern.as_str(), r.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            ("(", "unclosed group"),
            ("/x/q", "the flag 'q' is unknown"),
            ("(?<=a)b", "look-around, including look-ahead and look-behind, is not supported"),
            ("a{999999}{999999}", "it is too large"),
        ]
    );
    let redactor = Redactor::new(&choice).unwrap();
    assert_eq!(redactor.redact("an otter-12345 in sea-weed, SEA-WEED"), "an *** in sea-***, SEA-WEED");
    assert_eq!(redactor.redact("\"OTTER-123456789012345\", token=abc"), "\"OTTER-…2345\", token=***");

    assert_eq!(with_pattern(r"/^river.sea$/ms").redact("a\nriver\nsea\nb"), "a\n***\nb");
    assert_eq!(with_pattern(r"/river\/sea/").redact("river/sea RIVER/SEA"), "*** RIVER/SEA");
    assert_eq!(with_pattern("(otter)? (sea)?").redact("otter river"), "*** river");
    assert_eq!(with_pattern("x*").redact("otter"), "otter");
}

#[test]
fn x17_redacting_twice_changes_nothing_more() {
    // One rule's mask inside another's value.
    for text in [
        "token=sk-otterotterotterotter,river https://u:sk-otterotterotter@h?key=sk-otterotterotter",
        "Authorization: Bearer eyJotterotter.otterotterotter.otterotterabcd; password=***;***",
        "Cookie: token=otterotterotterotter; x-api-key=abc,def&user=bo",
        "password=\"password=\\\"password=otter",
    ] {
        let masked = built_in().redact(text).into_owned();
        assert_eq!(built_in().redact(&masked), masked, "{text}");
    }
}

#[test]
fn off_changes_nothing() {
    let redactor = Redactor::new(&Redaction::off()).unwrap();
    assert_eq!(redactor.redact("token=otter"), "token=otter");
    assert_eq!(redactor.fingerprint(), "off");
}

#[test]
fn the_fingerprint_tells_rules_and_patterns_apart() {
    let prints: Vec<String> = [Redaction::on(), Redaction::off()]
        .into_iter()
        .chain(["a", "b", "/a/i"].map(|p| Redaction::with_patterns([p.to_owned()]).0))
        .chain([Redaction::with_patterns(["a".into(), "b".into()]).0])
        .map(|choice| Redactor::new(&choice).unwrap().fingerprint().to_owned())
        .collect();
    for (i, fingerprint) in prints.iter().enumerate() {
        assert!(!prints[..i].contains(fingerprint), "{prints:?}");
    }
    assert!(prints[2].starts_with(&prints[0]), "{prints:?}");
}

/// Secrets by class: a text with `{}` where the secret stands, and what it looks like.
const PLANTS: &[(&str, &str)] = &[
    ("ACME_API_KEY={}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("ACME_SECRET=\"{}\"", "[A-Za-z0-9._~+/,;: -]{5,39}[a-z]"),
    ("{\"accessToken\":\"{}\",\"n\":1}", "[A-Za-z0-9._~+/,;:=& -]{5,39}[a-z]"),
    ("{ client_secret: '{}' }", "[A-Za-z0-9._~+/,;:=& -]{5,39}[a-z]"),
    ("deploy --password {} --force", "[A-Z][A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("Authorization: Bearer {}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("Authorization: Digest username=\"u\", response=\"{}\"", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("Bearer {}", "[A-Za-z0-9._~+/-]{17,39}[a-z0-9]"),
    ("x-api-key: {}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("Cookie: sid={}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("https://bo:{}@host/", "[A-Za-z0-9._~+-]{5,39}[a-z0-9]"),
    ("postgres://svc:{}@db/x", "[A-Za-z0-9._~+-]{5,39}[a-z0-9]"),
    ("https://h/p?code={}&x=1", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("user=bo&client_secret={}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("password={}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("db.password = {}", "[A-Za-z0-9._~+/-]{5,39}[a-z0-9]"),
    ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "[A-Za-z0-9+/]{10,60}\n[A-Za-z0-9+/]{10,60}"),
    ("{}", "AKIA[A-Z0-9]{16}"),
    ("aws_secret_access_key = {}", "[A-Za-z0-9/+]{40}"),
    ("{}", "[A-Z][a-z][0-9][zk][A-Za-z0-9/+]{36}"),
    ("{}", "sk-[A-Za-z0-9_-]{8,40}"),
    ("{}", "(ghp_|hf_|npm_|gsk_|xoxb-|pypi-|ya29\\.|sk_live_)[A-Za-z0-9]{10,40}"),
    ("{}", "(AIza|glpat-)[A-Za-z0-9_-]{20,40}"),
    ("{}", "eyJ[A-Za-z0-9_-]{7,30}\\.[A-Za-z0-9_-]{10,30}\\.[A-Za-z0-9_-]{10,30}"),
    ("https://hooks.slack.com/services/T0/B0/{}", "[A-Za-z0-9]{20,24}"),
    ("{}", "[0-9]{6,10}:[A-Za-z0-9_-]{20,35}"),
    ("app password: {}", "[a-z]{4}-[a-z]{4}-[a-z]{4}-[a-z]{4}"),
    ("{}", "gAAAA[A-Za-z0-9_-]{20,60}"),
];

/// What may stand around a secret.
fn surroundings() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(" "),
        Just("\n"),
        Just("the river "),
        Just(", "),
        Just(". "),
        Just("\""),
        Just("'"),
        Just("`"),
        Just("(see "),
        Just("**"),
        Just("```\n"),
        Just("> "),
        Just("- "),
        Just("密码是"),
        Just("，"),
        Just("パスワード "),
        Just("🚀"),
        Just("e\u{301} "),
        Just("{\"a\":\""),
        Just("\"}"),
        Just("token"),
        Just("password: "),
        Just("key="),
        Just("\\"),
        Just("\\n"),
        Just("***"),
        Just("…"),
        Just("&x=1 "),
        Just("https://h/?a=b "),
        Just("x-y "),
        Just("\r\n"),
        Just("\t"),
        Just("--token "),
        Just("Authorization: "),
        Just("data:a/b;base64,AAAA "),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// What may stand right beside a secret: anything that is no part of a word.
fn beside() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just(" "),
        Just("\n"),
        Just("\""),
        Just("'"),
        Just("`"),
        Just("("),
        Just(")"),
        Just("**"),
        Just("，"),
        Just("密"),
        Just("🦦"),
        Just(", "),
        Just(";"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_part_of_a_planted_secret_survives(
        (plant, secret) in (0..PLANTS.len())
            .prop_flat_map(|i| (Just(PLANTS[i]), proptest::string::string_regex(PLANTS[i].1).unwrap())),
        before in surroundings(),
        left in beside(),
        right in beside(),
        after in surroundings(),
        depth in 0..3,
    ) {
        let (text, _) = plant;
        // A word right beside it would make it part of that word.
        let right = if after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-') { format!("{right} ") } else { right.to_owned() };
        let left = if before.ends_with(|c: char| c.is_ascii_alphanumeric()) { format!(" {left}") } else { left.to_owned() };
        let mut text = format!("{before}{left}{}{right}{after}", text.replace("{}", &secret));
        let mut secret = secret;
        for _ in 0..depth {
            text = serde_json::to_string(&text).unwrap();
            secret = serde_json::to_string(&secret).unwrap().trim_matches('"').to_owned();
        }
        let masked = built_in().redact(&text).into_owned();
        prop_assert_eq!(&*built_in().redact(&masked), &*masked, "again: {}", text);
        // The start of a long secret is a hint; of a short one too, where what is glued to it makes it longer.
        let first = usize::from(masked.contains(&format!("{}…", &secret[..6])));
        for at in first..=secret.len().saturating_sub(6) {
            let window = &secret[at..at + 6];
            let elsewhere = text.matches(window).count() > secret.matches(window).count();
            prop_assert!(elsewhere || !masked.contains(window), "{:?} of {:?}\nin  {}\nout {}", window, secret, text, masked);
        }
    }

    #[test]
    fn redaction_is_idempotent(pieces in proptest::collection::vec(fragment(), 0..24), own in 0..5usize) {
        let text = pieces.concat();
        let redactor = match ["", r"\w+", "(a)(b)?", ".", r"/[^ ]+ (\S+)/"][own] {
            "" => built_in(),
            pattern => with_pattern(pattern),
        };
        let masked = redactor.redact(&text).into_owned();
        prop_assert_eq!(&*redactor.redact(&masked), &*masked, "{}", text);
    }

    #[test]
    fn any_text_is_taken(text in any::<String>()) {
        let masked = built_in().redact(&text).into_owned();
        prop_assert_eq!(&*built_in().redact(&masked), &*masked, "{}", text);
    }
}

fn fragment() -> impl Strategy<Value = String> {
    let fixed: &[&str] = &[
        "token",
        "ACME_TOKEN",
        "password",
        "Authorization",
        "Bearer",
        "Basic",
        "Digest",
        "cookie",
        "x-api-key",
        "--secret",
        "code",
        "body",
        "pass",
        "card number",
        "api key",
        "apiKey",
        "=",
        ":",
        ": ",
        " = ",
        ":=",
        "=>",
        "::",
        "\"",
        "'",
        "`",
        "\\\"",
        "\\\\\\\"",
        "\\",
        "\\n",
        "\n",
        "\r\n",
        " ",
        "  ",
        "\t",
        ",",
        ";",
        "&",
        "?",
        "#",
        "%5F",
        "&amp;",
        "\\u0026",
        "***",
        "…",
        "abcdef…wxyz",
        "abcde…xyz",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
        "</b>",
        "https://",
        "postgres://",
        "@",
        "u:p@h",
        "sk-",
        "ghp_",
        "eyJ",
        "AKIA",
        "1234567:",
        "gAAAA",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "…redacted…",
        "data:a/b;base64,",
        "$",
        "${",
        "}",
        "$ACME_TOKEN",
        "*",
        "-",
        "--",
        "/",
        ".",
        "密",
        "，",
        "🦦",
        "“",
        "”",
        "4242 4242 4242 4242",
        "string",
        "null",
    ];
    let fixed: Vec<String> = fixed.iter().map(|s| (*s).to_owned()).collect();
    prop_oneof![
        3 => proptest::sample::select(fixed),
        1 => proptest::string::string_regex("[A-Za-z0-9]{1,30}").unwrap(),
        1 => proptest::string::string_regex("[A-Za-z0-9_.=,;-]{1,60}").unwrap(),
    ]
}
