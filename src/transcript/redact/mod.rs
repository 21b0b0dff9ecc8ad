//! The last step before text becomes searchable: searchable text = redact(extract(event)) (D3).
//!
//! | question | file |
//! | --- | --- |
//! | what may the operator of a store choose? | `choice` |
//! | what stands in a secret's place? | `mask` |
//! | which labels announce a secret? | `labels`; where its value ends: `value` |
//! | which secrets are known by their look? | `tokens` |
//! | what of a URL query or a form is secret? | `pairs` |
//! | where is a private key? | `pem` |
//! | what is a rule, and how does it run? | `rule` |
//!
//! A text without any trigger costs one scan. Else every stage adds the secrets it finds, those found first deciding
//! where they end, and all are masked at once. That is done again until nothing changes any more: what a mask uncovers is
//! found too, and a text that was redacted stays as it is.

mod choice;
mod labels;
mod mask;
mod pairs;
mod pem;
mod rule;
#[cfg(test)]
mod tests;
mod tokens;
mod value;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::{Regex, RegexSet};

pub use choice::{Redaction, RejectedPattern};

use mask::{Secret, Secrets};
use rule::{Compiled, Rule};

/// The version of what is code here and no row. Raise it with every change after which a text may be masked otherwise:
/// stores are then rebuilt. Rows count by themselves.
const VERSION: u32 = 1;

/// Most rounds. Two or three do; only a text written for the purpose needs more.
const MAX_ROUNDS: usize = 32;

/// Masks secrets in texts.
#[derive(Clone)]
pub struct Redactor(Option<Arc<Rules>>);

struct Rules {
    operator: Vec<Regex>,
    fingerprint: String,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redactor").field(&self.fingerprint()).finish()
    }
}

impl Redactor {
    /// Masks as chosen.
    ///
    /// # Errors
    /// [`RejectedPattern`], the first one that can't be used: leaving it out would show what it was to mask.
    pub fn new(choice: &Redaction) -> Result<Self, RejectedPattern> {
        if !choice.is_on() {
            return Ok(Self::identity());
        }
        let operator = choice.patterns().iter().map(|pattern| choice::compile(pattern)).collect::<Result<_, _>>()?;
        let mut fingerprint = format!("{VERSION}-{:016x}", stable_hash(built_in_parts()));
        if !choice.patterns().is_empty() {
            let own = choice.patterns().iter().map(String::as_str);
            fingerprint.push_str(&format!("+{}-{:016x}", choice.patterns().len(), stable_hash(own)));
        }
        Ok(Self(Some(Arc::new(Rules { operator, fingerprint }))))
    }

    /// Changes nothing: what a store with redaction off uses.
    #[must_use]
    pub fn identity() -> Self {
        Self(None)
    }

    /// The text as it may be indexed and shown. Redacting it again changes nothing.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(rules) = &self.0 else { return Cow::Borrowed(text) };
        let mut text = Cow::Borrowed(text);
        for _ in 0..MAX_ROUNDS {
            match rules.round(&text) {
                Some(changed) => text = Cow::Owned(changed),
                None => break,
            }
        }
        text
    }

    /// Names the rules, the built-in ones and the operator's. Part of the schema fingerprint: when it changes, every
    /// text is made anew.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        self.0.as_ref().map_or("off", |rules| &rules.fingerprint)
    }
}

/// Adds the secrets it knows. The ranges are those of data URLs.
type Stage = Box<dyn Fn(&str, &[Range<usize>], &mut Secrets) + Send + Sync>;

/// The built-in stages in order, each with the trigger without which it finds nothing.
struct BuiltIn {
    triggers: RegexSet,
    stages: Vec<Stage>,
    long_run: Compiled,
}

static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(|| {
    let mut triggers = Vec::new();
    let mut stages: Vec<Stage> = Vec::new();
    let mut add = |trigger: &'static str, stage: Stage| {
        triggers.push(trigger);
        stages.push(stage);
    };
    let of_rule = |rule: &'static Rule| -> Stage {
        let compiled = Compiled::new(rule);
        Box::new(move |text, sealed, secrets| compiled.find(text, sealed, secrets))
    };
    for rule in labels::PARAMETERS {
        add(rule.trigger, of_rule(rule));
    }
    add(pairs::TRIGGER, Box::new(|text, _, secrets| pairs::find_in_queries(text, secrets)));
    add(pairs::TRIGGER, Box::new(|text, _, secrets| pairs::find_in_forms(text, secrets)));
    for rule in tokens::URL_PASSWORDS.iter().chain(labels::LABELS).chain(tokens::TOKENS) {
        add(rule.trigger, of_rule(rule));
    }
    // Last, so that it has no stage: private keys go before all stages.
    triggers.push(pem::TRIGGER);
    let triggers = RegexSet::new(triggers).unwrap_or_else(|error| unreachable!("a built-in trigger is off: {error}"));
    BuiltIn { triggers, stages, long_run: Compiled::new(&tokens::LONG_RUN) }
});

/// Everything that decides what the built-in rules mask.
fn built_in_parts() -> impl Iterator<Item = &'static str> {
    let rules = labels::PARAMETERS.iter().chain(tokens::URL_PASSWORDS).chain(labels::LABELS).chain(tokens::TOKENS);
    rules
        .chain([&tokens::LONG_RUN])
        .flat_map(|rule| [rule.name, rule.pattern, rule.trigger])
        .chain([pem::TRIGGER, pairs::TRIGGER])
        .chain(pairs::NAMES.iter().copied())
}

impl Rules {
    /// One round: every stage looks at the same text, so that none hides from another what it needs. `None` where
    /// nothing was masked.
    fn round(&self, text: &str) -> Option<String> {
        let built_in = &*BUILT_IN;
        let is_triggered = built_in.triggers.is_match(text);
        let has_long_run = tokens::has_long_run(text);
        if !is_triggered && !has_long_run && self.operator.is_empty() {
            return None;
        }
        let keyless = if is_triggered { pem::masked(text) } else { None };
        let current = keyless.as_deref().unwrap_or(text);
        let sealed = data_urls(current);
        let mut secrets = Secrets::default();
        if is_triggered {
            for stage in built_in.triggers.matches(current).iter().filter_map(|at| built_in.stages.get(at)) {
                stage(current, &sealed, &mut secrets);
            }
        }
        if has_long_run {
            built_in.long_run.find(current, &sealed, &mut secrets);
        }
        for pattern in &self.operator {
            find_operators(pattern, current, &mut secrets);
        }
        secrets.masked(current).or(keyless)
    }
}

/// The base64 of data URLs: it may look like any token, and a changed character would spoil it.
fn data_urls(text: &str) -> Vec<Range<usize>> {
    const MARK: &str = ";base64,";
    let is_data = |b: u8| b.is_ascii_alphanumeric() || b"+/=_-%".contains(&b);
    text.match_indices(MARK)
        .map(|(at, _)| {
            let from = at + MARK.len();
            from..from + text.as_bytes()[from..].iter().take_while(|b| is_data(**b)).count()
        })
        .collect()
}

/// Adds what the last group of an operator's pattern matched, without one the whole match.
fn find_operators(pattern: &Regex, text: &str, secrets: &mut Secrets) {
    for captures in pattern.captures_iter(text) {
        let last = captures.iter().skip(1).flatten().filter(|group| !group.is_empty()).last();
        let Some(found) = last.or_else(|| captures.get(0)) else { continue };
        let range = value::trimmed(text, found.range());
        let range = if range.is_empty() { found.range() } else { range };
        let is_blank = text[range.clone()].chars().all(char::is_whitespace);
        if !is_blank && !mask::is_in_mask(text, &range) {
            secrets.add(Secret::hinted(range));
        }
    }
}

/// FNV-1a over the parts and their lengths. Stands in stores: it must stay what it is.
fn stable_hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for part in parts {
        mix(&(part.len() as u64).to_le_bytes());
        mix(part.as_bytes());
    }
    hash
}
