//! Secrets known by the label before them (contract §8.4, classes 1 to 11, 16 and 17).
//!
//! The pattern of a row finds the label; where its value ends is code, because quotes may be escaped to any depth.
//!
//! The order of the rows matters where two of them find the same value: the first decides where it ends.

use std::ops::Range;

use super::mask::Secret;
use super::rule::{Finds, Label, Rule, proof};
use super::value::{self, Start};

/// Between a name and its separator: the quote or bracket that closes the name, or emphasis.
macro_rules! after_name {
    () => {
        r#"\\*["'`]?\]?\*{0,2}[ \t]*"#
    };
}

/// Between a name and its value; a type annotation before the equals sign too.
macro_rules! assigns {
    () => {
        concat!(
            after_name!(),
            r"(?::[ \t]*&?(?i-u:(?:'static[ \t]+)?(?:str|string|secretstr|any|bytes|number|int)(?:[ \t]*\|[ \t]*[a-z]+)?",
            r"|option(?:al)?[<\[](?:str|string)[>\]])[ \t]*={1,3}|:=|=>|={1,3}|:)\*{0,2}[ \t]*"
        )
    };
}

/// The start of an upper-case name; in escaped text the letter of `\n` is none of it.
macro_rules! env_name {
    () => {
        concat!(
            r"(?:(?-u:\b)|\\[nrt])[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|CREDENTIAL",
            r"|CARD_?NUMBER|CVC|CVV|SECURITY_?CODE)"
        )
    };
}

/// The last words of names that hold a secret, in any letter case.
macro_rules! secret_name {
    () => {
        concat!(
            r"(?i-u:token|secret|passw(?:or)?d|passphrase|pass|credential|jwt|(?:api|secret|private)[-_ ]?key",
            r"|key[-_]?material|secret[-_]?access[-_]?key|access[-_]key|secret[-_]?(?:value|input)",
            r"|card[-_ ]?number|(?:card[-_ ]?)?cv[cv]|security[-_ ]?code)"
        )
    };
}

/// Flags that take a secret.
macro_rules! secret_flag {
    () => {
        concat!(
            r"--(?i-u:(?:[a-z0-9]+[-_])*(?:token|secret|passw(?:or)?d|passphrase|credential|(?:api|secret|private)[-_]?key",
            r"|access[-_]?key|card[-_]?number|(?:card[-_]?)?cv[cv]|security[-_]?code))"
        )
    };
}

/// Headers that carry a key.
macro_rules! key_header {
    () => {
        concat!(
            r"(?i-u:x-(?:[a-z0-9]+-)*(?:key|token|secret|signature|assertion)|(?:[a-z0-9]+-)*api-?key",
            r"|(?:private|job|deploy)-token|ocp-apim-subscription-key)"
        )
    };
}

macro_rules! authorization {
    () => {
        concat!(r"(?i-u:(?:proxy-|x-)?authorization)", after_name!(), r"[:=]\*{0,2}")
    };
}

macro_rules! cookie {
    () => {
        concat!(r"(?i-u:(?:set-)?cookie)", after_name!(), r"[:=]\*{0,2}[ \t]*")
    };
}

/// Runs before URL queries and forms are looked at: their parts would be taken out of it.
pub(super) static PARAMETERS: &[Rule] = &[Rule {
    name: "structured-authorization",
    pattern: authorization!(),
    trigger: authorization!(),
    finds: Finds::Value(parameter_list),
    proof: proof! {
        masked: &[
            (
                r#"Authorization: Digest username="u", nonce="n", response="r""#,
                "Authorization: Digest ***",
            ),
            (
                r#"Authorization: Digest username="u",, response="r"; status=401"#,
                "Authorization: Digest ***; status=401",
            ),
            (
                "Authorization: Digest damaged,,response=abcdefghijklmnop; status=403",
                "Authorization: Digest ***; status=403",
            ),
            (
                "Proxy-Authorization: Digest username=\"u\",\r\n response=\"r\"; status=408",
                "Proxy-Authorization: Digest ***; status=408",
            ),
            (
                r#"Authorization: Digest realm=\"Otter Bay\", response=\"r\"; status=401"#,
                "Authorization: Digest ***; status=401",
            ),
            (
                r"Authorization: Digest username=sample,\r\n response=abcdef; status=413",
                "Authorization: Digest ***; status=413",
            ),
            (
                "Authorization: AWS4-HMAC-SHA256 Credential=otter/20260701/s3, SignedHeaders=host;x-date, Signature=00ff",
                "Authorization: AWS4-HMAC-SHA256 ***",
            ),
            (
                "{Authorization: AWS4-HMAC-SHA256 Credential=otter, SignedHeaders=host, Signature=00ff}",
                "{Authorization: AWS4-HMAC-SHA256 ***}",
            ),
            (
                r#"curl -H 'Authorization: Hawk id="otter", mac="0123456789abcdefghij"'"#,
                "curl -H 'Authorization: Hawk ***'",
            ),
            (
                r#"{"Authorization":"Digest username=\"u\", response=\"r\""}"#,
                r#"{"Authorization":"Digest ***"}"#,
            ),
        ],
        kept: &["Authorization: Digest ***; status=401", "the authorization model is open"],
    },
}];

/// The labels, in the order in which they are looked for.
pub(super) static LABELS: &[Rule] = &[
    Rule {
        name: "authorization",
        pattern: authorization!(),
        trigger: authorization!(),
        finds: Finds::Value(credential),
        proof: proof! {
            masked: &[
                ("Authorization: Basic c2VjcmV0", "Authorization: Basic ***"),
                ("Authorization: Bearer 0123456789abcdefghij", "Authorization: Bearer 012345…ghij"),
                ("Authorization: Bot otterotterotterotter", "Authorization: Bot ottero…tter"),
                ("(Authorization: Negotiate b3R0ZXJvdHRlcm90dGVy)", "(Authorization: Negotiate b3R0ZX…dGVy)"),
                ("authorization=token otterotterotterotter, x=1", "authorization=token ottero…tter, x=1"),
                ("Proxy-Authorization: Otter+Sea otterotterotterotter; y", "Proxy-Authorization: Otter+Sea ottero…tter; y"),
                ("X-Authorization: Basic b3R0ZXI=, status=401", "X-Authorization: Basic ***, status=401"),
                ("Authorization: otter-0123456789-sea", "Authorization: otter-…-sea"),
                ("Authorization:\r\n Basic b3R0ZXJvdHRlcm90ZXI=", "Authorization:\r\n Basic b3R0ZX…ZXI="),
                (r"Authorization:\nBasic b3R0ZXJvdHRlcm90ZXI=", r"Authorization:\nBasic b3R0ZX…ZXI="),
                (r"Authorization: Bearer\totterotterotterotter", r"Authorization: Bearer\tottero…tter"),
                (r#"{"Authorization":"Bearer otterotterotterotter"}"#, r#"{"Authorization":"Bearer ottero…tter"}"#),
                (r#"{\"authorization\":\"Basic b3R0ZXI=\"}"#, r#"{\"authorization\":\"Basic ***\"}"#),
                ("-H 'Authorization: Bearer /otter~0123456789abc'", "-H 'Authorization: Bearer /otter…9abc'"),
            ],
            kept: &[
                "the authorization model is open",
                "Authorization: Bearer",
                "Authorization:\n\nThe model is open.",
                "preauthorization: open",
            ],
        },
    },
    Rule {
        name: "authorization-or-cookie-field",
        pattern: concat!(
            r"(?i-u:(?:proxy-|x-)?authorization|(?:set-)?cookie)",
            after_name!(),
            r"(?:=>|[:=])\*{0,2}[ \t]*"
        ),
        trigger: concat!(r"(?i-u:authorization|cookie)", after_name!(), "[:=]"),
        finds: Finds::Value(quoted_field),
        proof: proof! {
            masked: &[
                ("headers: { cookie: 'otter=0123456789abc' }", "headers: { cookie: 'otter=…9abc' }"),
                (r#"{"set-cookie":"sid=short"}"#, r#"{"set-cookie":"***"}"#),
                (r#"{"authorization":"an otter of the sea"}"#, r#"{"authorization":"an ott… sea"}"#),
            ],
            kept: &[r#"{"cookies":"none"}"#, r#"{"authorization":"Bearer otterotterotterotter"}"#],
        },
    },
    Rule {
        name: "cookie-header",
        pattern: cookie!(),
        trigger: cookie!(),
        finds: Finds::Value(cookies),
        proof: proof! {
            masked: &[
                ("Cookie: sid=0123456789; theme=kelp", "Cookie: sid=01…kelp"),
                ("set-cookie: sid=1\nnext", "set-cookie: ***\nnext"),
                (r#"curl -H "Cookie: sid=1; a=2" https://h/"#, r#"curl -H "Cookie: ***" https://h/"#),
            ],
            kept: &["Cookie: the best treat", "cookies: sid=1"],
        },
    },
    Rule {
        name: "api-key-header",
        pattern: concat!(key_header!(), after_name!(), r"[:=]\*{0,2}[ \t]*"),
        trigger: concat!(key_header!(), after_name!(), "[:=]"),
        finds: Finds::Value(header),
        proof: proof! {
            masked: &[
                ("x-api-key: otter, request=7", "x-api-key: ***, request=7"),
                ("X-Auth-Token: otter-0123456789-sea; y", "X-Auth-Token: otter-…-sea; y"),
                ("x-goog-api-key=otter&name=sea", "x-goog-api-key=***&name=sea"),
                ("X-Api-Key: otter&river#sea0123456", "X-Api-Key: otter&…3456"),
                ("x-access-token=otter&river#sea0123456", "x-access-token=otter&…3456"),
                (r#"{"x-goog-api-key":"otter-0123456789-sea"}"#, r#"{"x-goog-api-key":"otter-…-sea"}"#),
                ("apikey: otter", "apikey: ***"),
                ("X-OpenClaw-Token: otter", "X-OpenClaw-Token: ***"),
                (r"\nx-api-key: otter", r"\nx-api-key: ***"),
            ],
            kept: &["x-request-id: 7", "x-api-version=1", "the api key of the sea", "max-api-keys: 3"],
        },
    },
    Rule {
        name: "env-assignment",
        pattern: concat!(env_name!(), assigns!()),
        trigger: concat!(
            r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|CREDENTIAL|NUMBER|CVC|CVV|CODE)",
            after_name!(),
            "[:=]"
        ),
        finds: Finds::Value(env_value),
        proof: proof! {
            masked: &[
                ("ACME_API_KEY=zk-live-0123456789abcdef", "ACME_API_KEY=zk-liv…cdef"),
                ("ACME_TOKEN=tiny", "ACME_TOKEN=***"),
                ("ACME_TOKEN=$OTHER_TOKEN", "ACME_TOKEN=***"),
                ("ACME_TOKEN=${ACME_TOKEN:-tiny}", "ACME_TOKEN=${ACME…iny}"),
                (r#"ACME_SECRET="seventeen-chars-x""#, r#"ACME_SECRET="***""#),
                (r#"ACME_SECRET="eighteen-chars-xyz""#, r#"ACME_SECRET="eighte…-xyz""#),
                ("export ACME_PASSWORD='two words'", "export ACME_PASSWORD='***'"),
                ("KEY: otter", "KEY: ***"),
                (r#"{"ACME_TOKEN":"otter"}"#, r#"{"ACME_TOKEN":"***"}"#),
                (r#"{\"ACME_TOKEN\":\"otter\"}"#, r#"{\"ACME_TOKEN\":\"***\"}"#),
                (r"set\nACME_KEY=otter\nNEXT=1", r"set\nACME_KEY=***\nNEXT=1"),
                (r#"ACME_SECRET="otter sea"#, r#"ACME_SECRET="*** sea"#),
                ("CARD_NUMBER=4242424242424242", "CARD_NUMBER=***"),
                (r#"const API_KEY: string = "otter";"#, r#"const API_KEY: string = "***";"#),
                (r#"API_KEY := "otter""#, r#"API_KEY := "***""#),
                (r#"env["API_KEY"] = "otter""#, r#"env["API_KEY"] = "***""#),
            ],
            kept: &[
                "ACME_TOKEN=$ACME_TOKEN",
                "ACME_TOKEN=${ACME_TOKEN}",
                r#"ACME_TOKEN="${ACME_TOKEN:-}""#,
                "ACME_KEY_FILE=otter",
                "KEYS=otter",
                r#"key: "llm""#,
                "ACME_TOKEN=",
                r#"ACME_TOKEN="""#,
                "ACME_KEY=***",
            ],
        },
    },
    Rule {
        name: "card-number",
        pattern: concat!(r"(?i-u:card[-_ ]?number)", assigns!()),
        trigger: concat!(r"(?i-u:card[-_ ]?number)", after_name!(), "[:=]"),
        finds: Finds::Value(card_number),
        proof: proof! {
            masked: &[
                ("Card number: 4242 4242 4242 4242.", "Card number: ***."),
                (r#"{"cardNumber":"4242-4242-4242-4242"}"#, r#"{"cardNumber":"***"}"#),
                (r#"{"cardNumber": 4242424242424242}"#, r#"{"cardNumber": ***}"#),
            ],
            kept: &["card number: see below"],
        },
    },
    Rule {
        name: "assignment",
        pattern: concat!(secret_name!(), assigns!()),
        trigger: concat!(secret_name!(), after_name!(), "[:=]"),
        finds: Finds::Value(assigned),
        proof: proof! {
            masked: &[
                // JSON fields.
                (r#"{"accessToken":"qwertyuiopasdfghjklz","n":1}"#, r#"{"accessToken":"qwerty…jklz","n":1}"#),
                (r#"{"apiKey" : "otter"}"#, r#"{"apiKey" : "***"}"#),
                (r#"{"client_secret":"ot\"ter"}"#, r#"{"client_secret":"***"}"#),
                (r#"{"x":"{\"password\":\"otter\"}"}"#, r#"{"x":"{\"password\":\"***\"}"}"#),
                (r#"{"aws_secret_access_key":"otter"}"#, r#"{"aws_secret_access_key":"***"}"#),
                (r#"{"SecretAccessKey":"otter"}"#, r#"{"SecretAccessKey":"***"}"#),
                (r#"{"cvc":"123","amount":"4200"}"#, r#"{"cvc":"***","amount":"4200"}"#),
                (r#"{"cvc": 123}"#, r#"{"cvc": ***}"#),
                (r#"{"sharedPaymentToken":"otterotterotterotter"}"#, r#"{"sharedPaymentToken":"ottero…tter"}"#),
                // Objects as a dumper prints them.
                ("config: { client_secret: 'otter sea' }", "config: { client_secret: '***' }"),
                // Assignments in lower case.
                ("password=otter token=river,sea", "password=*** token=***"),
                ("password='ot;ter' secret=`a b`", "password='***' secret=`***`"),
                ("db pass=otterotterotterotter next", "db pass=ottero…tter next"),
                // Configuration.
                ("password = otter", "password = ***"),
                ("api_secret: 'otter'", "api_secret: '***'"),
                ("db_password=otter", "db_password=***"),
                ("jdbc.password=otter", "jdbc.password=***"),
                ("tls.passphrase: otter", "tls.passphrase: ***"),
                ("secret_key = otter", "secret_key = ***"),
                ("botToken: 'otter'", "botToken: '***'"),
                ("access-token=otter", "access-token=***"),
                // As people write.
                ("**Password:** otter", "**Password:** ***"),
                ("**Password**: `otter`", "**Password**: `***`"),
                ("API key: otter", "API key: ***"),
                ("密码 password=otter，然后", "密码 password=***，然后"),
                ("password := \"otter\"", "password := \"***\""),
                (r#"password: Optional[str] = "otter""#, r#"password: Optional[str] = "***""#),
                (r"a\npassword=otter\nb", r"a\npassword=***\nb"),
                (r#"password="otter sea"#, r#"password="*** sea"#),
            ],
            kept: &[
                "compass=visible",
                "tokens: 5",
                "token_count=42",
                "the secret of the sea",
                "token = $token",
                "password: string",
                "token = None",
                "password=<password>",
                "const apiKey = await keyOf(otter);",
                "accesskey=\"x\"",
                "Token::new(secret::Vault)",
                r#"{"max_token": 4096}"#,
                "secret: {",
                "credentials: 'include'",
                "pass: 11 fail: 1",
                "PASS: tests/otter",
                "postgres://token:***@db/x",
                "password:",
                "privateKey: '-----BEGIN PRIVATE KEY-----'",
            ],
        },
    },
    Rule {
        name: "cli-flag",
        pattern: concat!(secret_flag!(), r#"(?:=|[ \t]+(?:\\\r?\n[ \t]*)?|\\*["'][ \t]*,[ \t]*)"#),
        trigger: concat!(secret_flag!(), r#"[= \t\\"']"#),
        finds: Finds::Value(argument),
        proof: proof! {
            masked: &[
                ("deploy --password hunter2 --force", "deploy --password *** --force"),
                ("--token=abcdefghijklmnopqrst", "--token=abcdef…qrst"),
                ("--api-key 'ot ter' x", "--api-key '***' x"),
                ("--client-secret otter, then", "--client-secret ***, then"),
                ("--hook-token \\\n  otter", "--hook-token \\\n  ***"),
                (r#"["--passwd","otter"]"#, r#"["--passwd","***"]"#),
                ("--secret or-else", "--secret ***"),
            ],
            kept: &[
                "use --password or --password-file",
                "--token --force",
                "--password-file otter",
                "the --secret flag",
                "--password",
                "Pass --token.",
                "--api-key <key> (optional)",
            ],
        },
    },
];

/// The digits of a card, in groups or not.
fn card_number(label: &Label<'_>) -> Option<Secret> {
    let at = match value::start(label.text, label.range.end) {
        Start::Quoted(range) => range.start,
        Start::Unclosed(from) => from,
        Start::Bare => label.range.end,
    };
    let number = label.text[at..].bytes().take(40).take_while(|b| b.is_ascii_digit() || b" -".contains(b)).count();
    let number = label.text[at..at + number].trim_end_matches([' ', '-']);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    (digits >= 12).then(|| Secret::hidden(at..at + number.len()))
}

/// A value in upper-case names.
fn env_value(label: &Label<'_>) -> Option<Secret> {
    // The escape before a name is none of it.
    let escape = usize::from(label.text[label.range.clone()].starts_with('\\')) * 2;
    value_of(label, label.range.start + escape)
}

/// A value in names of any letter case.
fn assigned(label: &Label<'_>) -> Option<Secret> {
    let start = label.name_start()?;
    let secret = value_of(label, start)?;
    // Counts of passed tests are reported under the same word as passwords.
    let name = &label.text[label.range.start..];
    let is_pass = start == label.range.start
        && has_prefix(name, "pass")
        && !has_prefix(name, "passw")
        && !has_prefix(name, "passp");
    let is_bare = !label.text[..secret.range.start].ends_with(['"', '\'', '`']);
    if is_pass && is_bare && label.separator().contains(':') {
        let value = &label.text[secret.range.clone()];
        if !name.starts_with("pass") || value.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    Some(secret)
}

fn value_of(label: &Label<'_>, name_start: usize) -> Option<Secret> {
    let text = label.text;
    let at = label.range.end;
    let separator = label.separator();
    let range = match value::start(text, at) {
        Start::Quoted(range) => range,
        Start::Unclosed(from) => value::bare(text, from, &[]),
        Start::Bare => {
            let range = value::bare(text, at, &[]);
            let value = &text[range.clone()];
            let is_path = separator.ends_with(':') && value.starts_with(':');
            // In JSON only strings are secrets, and the numbers of cards.
            let is_number = separator.contains(['"', '\'']) && !separator.contains(']') && separator.contains(':');
            if is_path || (is_number && !label.is_card()) || is_plain(value) {
                return None;
            }
            range
        }
    };
    let value = &text[range.clone()];
    let name_end = label.name_end();
    if refers_to(value, &text[name_start..name_end]) || value.starts_with("-----BEGIN") {
        return None;
    }
    Some(Secret::hinted(range))
}

/// The argument of a flag: no further flag, and no word that goes on a sentence about the flag.
fn argument(label: &Label<'_>) -> Option<Secret> {
    let text = label.text;
    let at = label.range.end;
    let range = match value::start(text, at) {
        Start::Quoted(range) => range,
        Start::Unclosed(from) => value::bare(text, from, &[]),
        Start::Bare => {
            let range = value::bare(text, at, &[]);
            let value = &text[range.clone()];
            let is_spaced = !text[..at].ends_with('=');
            if is_placeholder(value) || (is_spaced && (value.starts_with('-') || is_prose(value))) {
                return None;
            }
            range
        }
    };
    (!text[range.clone()].starts_with("-----BEGIN")).then(|| Secret::hinted(range))
}

/// The value of a header that carries a key.
fn header(label: &Label<'_>) -> Option<Secret> {
    label.name_start()?;
    let range = match value::start(label.text, label.range.end) {
        Start::Quoted(range) => range,
        Start::Unclosed(from) => value::bare(label.text, from, &[]),
        Start::Bare => {
            let range = value::bare(label.text, label.range.end, &[',', ';']);
            if is_plain(&label.text[range.clone()]) {
                return None;
            }
            range
        }
    };
    Some(Secret::hinted(range))
}

/// A quoted value. A scheme with one credential is left to the rule of the header, which shows the scheme.
fn quoted_field(label: &Label<'_>) -> Option<Secret> {
    label.name_start()?;
    let Start::Quoted(range) = value::start(label.text, label.range.end) else { return None };
    let value = &label.text[range.clone()];
    let is_header = value.split_once(' ').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.contains([' ', ',']));
    (!is_header).then(|| Secret::hinted(range))
}

/// Longest name that a first cookie may have, in bytes.
const MAX_COOKIE_NAME_BYTES: usize = 256;

/// The cookies of a header: to the end of its line, or to the quote that ends the header.
fn cookies(label: &Label<'_>) -> Option<Secret> {
    label.name_start()?;
    let bytes = &label.text.as_bytes()[label.range.end..];
    let name = bytes.iter().take(MAX_COOKIE_NAME_BYTES).take_while(|b| !matches!(b, b'=' | b'\n')).count();
    if bytes.get(name) != Some(&b'=') {
        return None;
    }
    let is_end = |at: usize| match bytes[at] {
        b'\n' | b'\r' => true,
        b'\\' => matches!(bytes.get(at + 1), Some(b'n' | b'r' | b'"' | b'\'')),
        b'"' | b'\'' | b'`' => !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
        _ => false,
    };
    let end = (0..bytes.len()).find(|&at| is_end(at)).unwrap_or(bytes.len());
    let range = value::trimmed(label.text, label.range.end..label.range.end + end);
    label.text[range.clone()].contains('=').then(|| Secret::hinted(range))
}

/// The credential of an authorization header: what follows its scheme, or all of it where it names none.
fn credential(label: &Label<'_>) -> Option<Secret> {
    let header = Header::read(label)?;
    if let Some(after) = header.after_scheme {
        let range = value::bare(label.text, after, &[',', ';']);
        if !range.is_empty() {
            return Some(Secret::hinted(range));
        }
    }
    let word = &label.text[header.word.clone()];
    (!is_scheme(word) && !is_plain(word)).then_some(Secret::hinted(header.word))
}

/// The parameters of an authorization header, whole.
fn parameter_list(label: &Label<'_>) -> Option<Secret> {
    let header = Header::read(label)?;
    let scheme = &label.text[header.word];
    let end = end_of_parameters(label.text, header.after_scheme?, !is_token_scheme(scheme))?;
    let range = value::trimmed(label.text, header.after_scheme?..end);
    // A list that ends in a quoted value ends with its quote.
    let range = if label.text[range.end..end].starts_with(['"', '\'', '\\']) { range.start..end } else { range };
    Some(Secret::hidden(range))
}

/// An authorization header's value: its first word, and where what follows it begins.
struct Header {
    word: Range<usize>,
    after_scheme: Option<usize>,
}

impl Header {
    fn read(label: &Label<'_>) -> Option<Self> {
        label.name_start()?;
        let text = label.text;
        let from = after_space(text, label.range.end);
        let is_folded = text[label.range.end..from].contains(['\n', '\\']);
        let bytes = text.as_bytes();
        let escapes = bytes[from..].iter().take_while(|&&b| b == b'\\').count();
        let quoted = matches!(bytes.get(from + escapes), Some(b'"' | b'\'' | b'`'));
        let from = if quoted { from + escapes + 1 } else { from };
        let word = value::bare(text, from, &[',', ';']);
        let is_word = {
            let word = text[word.clone()].as_bytes();
            word.first().is_some_and(u8::is_ascii_alphabetic)
                && word.len() <= 32
                && word.iter().all(|b| b.is_ascii_alphanumeric() || b"+-_.".contains(b))
        };
        if word.is_empty() || (is_folded && !is_scheme(&text[word.clone()])) {
            return None;
        }
        let after = after_space(text, word.end);
        // What stands on the next line is the credential only after a scheme.
        let is_near = after > word.end && (is_scheme(&text[word.clone()]) || !text[word.end..after].contains('\n'));
        Some(Self { word, after_scheme: (is_word && is_near).then_some(after) })
    }
}

/// Where the white space at `at` ends, folded lines and escaped white space too.
fn after_space(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = at;
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'\\') if matches!(bytes.get(at + 1), Some(b'r' | b'n' | b't')) => at += 2,
            _ => return at,
        }
    }
}

/// Where a list of `name=value, …` ends; `None` where there is no such list. Only schemes that take parameters may
/// begin it with something else.
fn end_of_parameters(text: &str, from: usize, takes_parameters: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    let mut end = None;
    loop {
        let name_end = at + bytes[at..].iter().take_while(|b| is_token_byte(**b)).count();
        let equals = name_end + bytes[name_end..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let has_value = bytes.get(equals) == Some(&b'=')
            && !matches!(bytes.get(equals + 1), None | Some(b'=' | b',' | b';' | b'\r' | b'\n'));
        if name_end > at && has_value {
            let value = equals + 1 + bytes[equals + 1..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            at = end_of_parameter(text, value);
            end = Some(at);
        } else if name_end > at && (takes_parameters || end.is_some()) {
            at = name_end;
        } else {
            return end;
        }
        let mut next = after_space(text, at);
        if bytes.get(next) != Some(&b',') {
            return end;
        }
        while bytes.get(next) == Some(&b',') {
            next = after_space(text, next + 1);
        }
        at = next;
    }
}

fn end_of_parameter(text: &str, at: usize) -> usize {
    let line_end = |from: usize| text[from..].find(['\n', '\r']).map_or(text.len(), |offset| from + offset);
    match value::start(text, at) {
        Start::Quoted(range) => {
            let bytes = text.as_bytes();
            let escapes = bytes[range.end..].iter().take_while(|&&b| b == b'\\').count();
            let quote = range.end + escapes;
            quote + text[quote..].chars().next().map_or(0, char::len_utf8)
        }
        Start::Unclosed(from) => line_end(from),
        Start::Bare => {
            let rest = text[at..].char_indices();
            let bytes = text.as_bytes();
            let mut ends = rest.filter(|&(offset, c)| match c {
                ',' | '"' => true,
                // In the grammar of a token, but also around the whole header.
                '\'' | '`' => !bytes.get(at + offset + 1).is_some_and(u8::is_ascii_alphanumeric),
                '\\' => true,
                ';' => bytes.get(at + offset + 1).is_none_or(u8::is_ascii_whitespace),
                _ => c.is_whitespace(),
            });
            ends.next().map_or(text.len(), |(offset, _)| at + offset)
        }
    }
}

/// Bytes of a token as HTTP has it, quotes excepted.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&*+.^_|~-/".contains(&byte)
}

/// Schemes whose credential is one token.
fn is_token_scheme(word: &str) -> bool {
    const SCHEMES: &[&str] = &["basic", "bearer", "bot", "token", "negotiate", "ntlm", "apikey", "key", "dpop"];
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Words that are schemes of an authorization and never credentials.
pub(super) fn is_scheme(word: &str) -> bool {
    const SCHEMES: &[&str] = &["digest", "hawk", "oauth", "signature", "mutual"];
    is_token_scheme(word)
        || SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
        || has_prefix(word, "aws4-hmac-")
        || has_prefix(word, "scram-")
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

impl Label<'_> {
    /// Where the whole name begins. `None` where the label is the end of another word.
    fn name_start(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let at = self.range.start;
        // In a URL the word before the colon is a user.
        if self.text[..at].ends_with("://") && self.separator().starts_with(':') {
            return None;
        }
        let Some(before) = at.checked_sub(1).map(|before| bytes[before]) else { return Some(at) };
        let is_escape = matches!(before, b'n' | b'r' | b't') && at >= 2 && bytes[at - 2] == b'\\';
        let is_camel = bytes[at].is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
        if is_escape || !(before.is_ascii_alphanumeric() || before == b'_') {
            return Some(at);
        }
        if before != b'_' && !is_camel {
            return None;
        }
        let prefix = bytes[..at].iter().rev().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        Some(at - prefix)
    }

    /// Where the name ends.
    fn name_end(&self) -> usize {
        let label = &self.text[self.range.clone()];
        let escape = if label.starts_with('\\') { 2 } else { 0 };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
        let name = label[escape..].split(|c| !is_name(c)).next().unwrap_or_default().trim_end();
        self.range.start + escape + name.len()
    }

    /// What stands between the name and its value.
    fn separator(&self) -> &str {
        self.text[self.name_end()..self.range.end].trim_end()
    }

    fn is_card(&self) -> bool {
        let name = &self.text[self.range.clone()];
        ["card", "cvc", "cvv", "security"].iter().any(|word| has_prefix(name, word))
    }
}

/// Whether a value is a reference to the name it is assigned to: `$NAME`, `${NAME}`, `${NAME:-}`.
fn refers_to(value: &str, name: &str) -> bool {
    let Some(reference) = value.strip_prefix('$') else { return false };
    match reference.strip_prefix('{').and_then(|braced| braced.strip_suffix('}')) {
        Some(braced) => braced.strip_suffix(":-").or_else(|| braced.strip_suffix('-')).unwrap_or(braced) == name,
        None => reference == name,
    }
}

/// Whether a bare value says nothing: punctuation, a word that stands for a type or for no value, a `<placeholder>`.
fn is_plain(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "string",
        "str",
        "&str",
        "number",
        "boolean",
        "bool",
        "int",
        "integer",
        "any",
        "unknown",
        "void",
        "bytes",
        "object",
        "required",
        "optional",
        "(optional",
        "await",
        "new",
    ];
    value.bytes().all(|b| b"{[(<>=|-+.:/&~?".contains(&b))
        || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
        || is_placeholder(value)
}

fn is_placeholder(value: &str) -> bool {
    let name = value.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_')))
}

/// Words that follow a flag in a sentence about it.
fn is_prose(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "a",
        "accepts",
        "after",
        "also",
        "an",
        "and",
        "are",
        "argument",
        "arguments",
        "as",
        "at",
        "be",
        "because",
        "before",
        "but",
        "by",
        "can",
        "could",
        "do",
        "does",
        "either",
        "expects",
        "flag",
        "flags",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "instead",
        "into",
        "is",
        "isn't",
        "it",
        "its",
        "may",
        "means",
        "might",
        "must",
        "needs",
        "nor",
        "not",
        "of",
        "on",
        "only",
        "option",
        "options",
        "or",
        "parameter",
        "prompts",
        "requires",
        "sets",
        "should",
        "so",
        "specifies",
        "switch",
        "takes",
        "than",
        "that",
        "the",
        "then",
        "there",
        "they",
        "this",
        "to",
        "unless",
        "until",
        "using",
        "via",
        "when",
        "which",
        "will",
        "with",
        "without",
    ];
    let word = value.trim_end_matches(['.', ':', '?', '!']);
    word.is_empty() || WORDS.iter().any(|prose| word.eq_ignore_ascii_case(prose))
}
