//! Secrets in `name=value` pairs joined by `&`: URL queries and form bodies (contract §8.4, classes 14 and 15).

use std::borrow::Cow;
use std::ops::Range;

use super::mask::{Secret, Secrets};
use super::value::{self, Start};

/// Found in every text that may hold a query or a form.
pub(super) const TRIGGER: &str = concat!(
    r#"[?#&][^?#&= \t\r\n"'<>]+="#,
    r#"|(?i-u:body|form|payload|data)["'\\]*[ \t]*[:=]"#,
    r"|%[0-9A-Fa-f]{2}[^ \t\r\n=]*="
);

/// Longest name that is looked at, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Names of secrets, without separators and in lower case.
pub(super) const NAMES: &[&str] = &[
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "appsecret",
    "auth",
    "authorization",
    "authtoken",
    "awssecretaccesskey",
    "cardcvc",
    "cardcvv",
    "cardnumber",
    "clientsecret",
    "code",
    "credential",
    "cvc",
    "cvv",
    "hooktoken",
    "idtoken",
    "jwt",
    "key",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "paymentcredential",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitycode",
    "session",
    "sharedpaymenttoken",
    "sig",
    "signature",
    "token",
    "xaccesstoken",
    "xamzcredential",
    "xamzsecuritytoken",
    "xamzsignature",
    "xapikey",
    "xauthtoken",
];

/// Endings of further names, after a separator.
const ENDINGS: &[&str] = &["token", "secret", "password", "passwd", "apikey", "api_key", "api-key"];

/// Adds the secrets of URL queries, of fragments too.
pub(super) fn find_in_queries(text: &str, secrets: &mut Secrets) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(offset) = bytes[at..].iter().position(|b| matches!(b, b'?' | b'#')) {
        at += offset + 1;
        while let Some(pair) = Pair::read(text, at, b"?#") {
            if is_secret_name(&text[pair.name.clone()]) {
                secrets.add(Secret::hinted(value::trimmed(text, pair.value.clone())));
            }
            at = pair.end;
            match pair.joined {
                Some(next) => at = next,
                None => break,
            }
        }
    }
}

/// Adds the secrets of form bodies, which show nothing whatever their length.
pub(super) fn find_in_forms(text: &str, secrets: &mut Secrets) {
    let mut done = 0;
    for line in text.split('\n').filter(|line| line.contains('=')) {
        let mut before = "";
        for word in words(line) {
            // Words are parts of the text: where they are is where they begin in memory.
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            let end = at + word.len();
            // A quoted value may hold spaces.
            while word.contains('=') && (at..end).contains(&done.max(at)) {
                done = form(text, done.max(at)..end, is_body_label(before), secrets);
            }
            before = word;
        }
    }
}

/// The words of a line; escaped white space separates them too.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_ascii_whitespace().flat_map(|word| {
        let mut rest = Some(word);
        std::iter::from_fn(move || {
            let word = rest?;
            let escape = word
                .match_indices('\\')
                .find(|(at, _)| matches!(word.as_bytes().get(at + 1), Some(b'n' | b'r' | b't')));
            let (first, after) = escape.map_or((word, None), |(at, _)| (&word[..at], Some(&word[at + 2..])));
            rest = after;
            Some(first)
        })
    })
}

/// One word that may begin with a form; where that ends.
fn form(text: &str, word: Range<usize>, labelled: bool, secrets: &mut Secrets) -> usize {
    let mut labelled = labelled;
    let mut from = word.start;
    let Some(mut equals) = text[word.clone()].find('=').map(|offset| word.start + offset) else { return word.end };
    if text[word.start..equals].contains(['?', '#']) {
        return word.end;
    }
    loop {
        let opens =
            |c: char| matches!(c, '"' | '\'' | '`' | '(' | '{' | '[' | '<' | '>' | ',' | ';' | ':' | '|' | '&' | '/');
        let name = text[from..equals].rfind(opens).map_or(from, |last| from + last + 1);
        labelled |= is_body_label(&text[from..name]);
        from = name;
        // `body=name=value`
        let is_wrapper = is_body_label(&text[name..equals + 1]);
        match text[equals + 1..word.end].find('=') {
            Some(next) if is_wrapper => {
                labelled = true;
                from = equals + 1;
                equals = from + next;
            }
            _ => break,
        }
    }
    let mut pairs = Vec::new();
    let mut at = from;
    while let Some(pair) = Pair::read(text, at, b"") {
        let joined = pair.joined;
        pairs.push(pair);
        match joined {
            Some(next) => at = next,
            None => break,
        }
    }
    let Some(end) = pairs.last().map(|pair| pair.end) else { return word.end };
    if pairs.len() >= 2 || labelled || text[pairs[0].name.clone()].contains('%') {
        for pair in pairs {
            if is_secret_name(&text[pair.name]) {
                secrets.add(Secret::hidden(value::trimmed(text, pair.value)));
            }
        }
    }
    end
}

/// Whether a word announces a form.
fn is_body_label(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', '`', '\\', ' ']);
    let Some(name) = word.strip_suffix(':').or_else(|| word.strip_suffix('=')) else { return false };
    let name = name.trim_end_matches(['"', '\'', '`', '\\']);
    let ends = |word: &str| {
        name.len() >= word.len() && name.as_bytes()[name.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    };
    ["body", "form", "payload", "data"].iter().any(|word| ends(word))
}

/// One `name=value`.
struct Pair {
    name: Range<usize>,
    /// Without quotes.
    value: Range<usize>,
    /// Where the pair ends, a closing quote included.
    end: usize,
    /// Where the next pair begins, when an ampersand follows.
    joined: Option<usize>,
}

impl Pair {
    /// Reads the pair at `at`, passing over parts without `=`. `stops` end a name.
    fn read(text: &str, at: usize, stops: &[u8]) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut from = at;
        let mut equals = from;
        loop {
            match bytes.get(equals)? {
                b'=' => break,
                b'&' => from = equals + 1,
                b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b'<' | b'>' => return None,
                byte if stops.contains(byte) => return None,
                _ if equals - from > MAX_NAME_BYTES => return None,
                _ => {}
            }
            equals += 1;
        }
        let name = from..equals;
        let (value, end) = match value::start(text, equals + 1) {
            Start::Quoted(range) => {
                let escapes = bytes[range.end..].iter().take_while(|&&b| b == b'\\').count();
                let quote = text[range.end + escapes..].chars().next().map_or(0, char::len_utf8);
                let end = range.end + escapes + quote;
                (range, end)
            }
            Start::Unclosed(_) | Start::Bare => {
                let is_end = |c: char| {
                    c.is_ascii_whitespace()
                        || matches!(c, '&' | '"' | '\'' | '`' | '<' | '>' | '\\')
                        || c == '#' && !stops.is_empty()
                };
                let end = text[equals + 1..].find(is_end).map_or(text.len(), |offset| equals + 1 + offset);
                (equals + 1..end, end)
            }
        };
        let rest = &text[end..];
        let amp = ["&amp;", "&", r"\u0026"].into_iter().find(|amp| rest.starts_with(amp));
        Some(Self { name, value, end, joined: amp.map(|amp| end + amp.len()) })
    }
}

/// Whether a name, as written in a URL or form, is that of a secret. Percent-encoding, plus signs and characters that
/// cannot be seen make no difference.
pub(super) fn is_secret_name(name: &str) -> bool {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return false;
    }
    // Encoded twice is not seen less often than once.
    let once = percent_decoded(name);
    let decoded = percent_decoded(&once);
    let plain = |part: &str| -> String {
        part.chars().filter(|&c| !is_unseen(c) && c != '+').map(|c| c.to_ascii_lowercase()).collect()
    };
    // The innermost of `user[password]`, and what stands behind the last space that a script without spaces wrote.
    let inner = decoded.trim_end_matches(']').rsplit(['[', '.']).next().unwrap_or_default();
    let last = decoded.rsplit(char::is_whitespace).next().unwrap_or_default();
    [&*decoded, inner, last].into_iter().any(|name| is_plain_secret_name(&plain(name)))
}

fn is_plain_secret_name(name: &str) -> bool {
    let compact: String = name.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    if NAMES.binary_search(&compact.as_str()).is_ok() {
        return true;
    }
    let has_ending = |ending: &str| name.strip_suffix(ending).is_some_and(|rest| rest.ends_with(['_', '-']));
    if ENDINGS.iter().any(|ending| has_ending(ending)) {
        return true;
    }
    let hex = name.strip_prefix("token_").or_else(|| name.strip_prefix("token-"));
    hex.is_some_and(|hex| hex.len() >= 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

/// Characters that leave no mark: white space, controls, formats, fillers.
fn is_unseen(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{115f}' | '\u{1160}'
                | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries_of(text: &str) -> Option<String> {
        let mut secrets = Secrets::default();
        find_in_queries(text, &mut secrets);
        secrets.masked(text)
    }

    fn forms_of(text: &str) -> Option<String> {
        let mut secrets = Secrets::default();
        find_in_forms(text, &mut secrets);
        secrets.masked(text)
    }

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn names_of_secrets() {
        for name in [
            "token",
            "Access-Token",
            "x_amz_signature",
            "X-Amz-Security-Token",
            "client%5Fsecret",
            "client_se+cret",
            "se\u{200b}cret",
            "client%5Fse%E2%80%8Bcret",
            "client_se\u{0}cret",
            "client%255Fsecret",
            "page_token",
            "token_0123456789abcdef",
            "user[password]",
            "db_password",
            "sig",
            "accessToken",
            "cardNumber",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "signal",
            "state",
            "signature_algorithm",
            "token_count",
            "session_id",
            "x-api-version",
            "amount",
            "",
            "keyboard",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn queries() {
        for (text, expected) in [
            ("https://h/p?access_token=abcdefghijklmnopqr&x=1", "https://h/p?access_token=abcdef…opqr&x=1"),
            ("GET /cb?code=otter#frag", "GET /cb?code=***#frag"),
            ("/cb?a&token=ot)ter&safe=1", "/cb?a&token=***&safe=1"),
            ("[x](https://h/?sig=otter)", "[x](https://h/?sig=***)"),
            ("/cb?token=\"ot ter\"&safe=1", "/cb?token=\"***\"&safe=1"),
            ("/cb?x=1&amp;key=otter", "/cb?x=1&amp;key=***"),
            (r#""u":"/cb?x=1\u0026key=otter\u0026y=2""#, r#""u":"/cb?x=1\u0026key=***\u0026y=2""#),
            ("/cb#access_token=otter&state=s", "/cb#access_token=***&state=s"),
            ("/cb?client%5Fsecret=otter", "/cb?client%5Fsecret=***"),
        ] {
            assert_eq!(queries_of(text).as_deref(), Some(expected), "{text}");
            assert_eq!(forms_of(expected), None, "{expected}");
        }
        for text in
            ["/cb?signal=x&state=y&signature_algorithm=z", "what? a=b", "code=E42", "user=bo&password=otter", "?="]
        {
            assert_eq!(queries_of(text), None, "{text}");
        }
    }

    #[test]
    fn forms() {
        for (text, expected) in [
            ("user=bo&password=longlonglonglonglong", "user=bo&password=***"),
            ("body: code=otter next", "body: code=*** next"),
            ("body: \"client_secret=otter&safe=1\"", "body: \"client_secret=***&safe=1\""),
            ("form_body=client_secret=otter&app_secret=sea", "form_body=client_secret=***&app_secret=***"),
            ("curl -d 'code=otter&safe=1' https://h/", "curl -d 'code=***&safe=1' https://h/"),
            ("\"body\": \"code=otter\"", "\"body\": \"code=***\""),
            ("client%5Fsecret=otter", "client%5Fsecret=***"),
            ("a\nb=1&app_secret=\"ot&ter\"&c=2\r\nd", "a\nb=1&app_secret=\"***\"&c=2\r\nd"),
            ("manual callback code=otter&state=x", "manual callback code=***&state=x"),
            ("a=1&token=\"ot ter\"&key='b=1&key=c'&x=1", "a=1&token=\"***\"&key='***'&x=1"),
        ] {
            assert_eq!(forms_of(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["failed: code=E42 status=500", "/p?a=1&token=otter", "a=b && c=d", "code=***&x=1", "=&="] {
            assert_eq!(forms_of(text), None, "{text}");
        }
    }
}
