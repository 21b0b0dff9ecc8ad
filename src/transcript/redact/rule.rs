//! A rule: what it finds, what of that it masks, and the proof that it does. The rows are in `labels` and `tokens`.

use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

use super::mask::{Secret, Secrets};

/// One kind of secret.
pub(super) struct Rule {
    /// Names it in tests and warnings.
    pub(super) name: &'static str,
    /// What it looks for; letters outside ASCII never make a difference to it.
    pub(super) pattern: &'static str,
    /// A cheaper pattern that is found in every text where `pattern` is.
    pub(super) trigger: &'static str,
    /// What of a match is the secret.
    pub(super) finds: Finds,
    /// Texts that show it at work.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests, and empty outside of them"))]
    pub(super) proof: Proof,
}

/// What of a match is the secret.
pub(super) enum Finds {
    /// The match, or its group, where the function agrees.
    Token(fn(&str, &Range<usize>) -> bool),
    /// What follows the match, which is its label.
    Value(fn(&Label<'_>) -> Option<Secret>),
}

/// A label that was found: a name and what stands between it and its value.
pub(super) struct Label<'t> {
    /// The whole text.
    pub(super) text: &'t str,
    /// The label in it; its value begins where it ends.
    pub(super) range: Range<usize>,
}

/// Texts with what becomes of them, and texts that stay.
pub(super) struct Proof {
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests, and empty outside of them"))]
    pub(super) masked: &'static [(&'static str, &'static str)],
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests, and empty outside of them"))]
    pub(super) kept: &'static [&'static str],
}

/// The proof of a rule. Only tests carry the samples: a program full of things that look like credentials is one that
/// scanners for credentials stop at.
macro_rules! proof {
    (masked: $masked:expr, kept: $kept:expr $(,)?) => {{
        #[cfg(test)]
        const PROOF: $crate::transcript::redact::rule::Proof =
            $crate::transcript::redact::rule::Proof { masked: $masked, kept: $kept };
        #[cfg(not(test))]
        const PROOF: $crate::transcript::redact::rule::Proof =
            $crate::transcript::redact::rule::Proof { masked: &[], kept: &[] };
        PROOF
    }};
}
pub(super) use proof;

/// Labels inside one secret whose values are looked for too. Bounds the work on a text made of labels.
const MAX_NESTED: usize = 8;

/// A rule ready to run; its pattern is compiled when it is first needed.
pub(super) struct Compiled {
    pub(super) rule: &'static Rule,
    regex: OnceLock<Regex>,
}

impl Compiled {
    pub(super) const fn new(rule: &'static Rule) -> Self {
        Self { rule, regex: OnceLock::new() }
    }

    /// Adds every secret of this kind. Tokens that begin in one of the `sealed` ranges are none.
    pub(super) fn find(&self, text: &str, sealed: &[Range<usize>], secrets: &mut Secrets) {
        let regex = self.regex.get_or_init(|| built_in(self.rule.pattern));
        let mut at = 0;
        match self.rule.finds {
            Finds::Token(agrees) => {
                let mut groups = regex.capture_locations();
                while let Some(found) = regex.captures_read_at(&mut groups, text, at) {
                    let range = groups.get(1).map_or(found.range(), |(from, to)| from..to);
                    let next = sealed.partition_point(|sealed| sealed.end <= range.start);
                    let is_sealed = sealed.get(next).is_some_and(|sealed| sealed.start <= range.start);
                    if !is_sealed && agrees(text, &range) {
                        secrets.add(Secret::hinted(range));
                    }
                    at = found.end();
                }
            }
            Finds::Value(value) => {
                let mut masked_to = 0;
                let mut nested = 0;
                while let Some(found) = regex.find_at(text, at) {
                    at = found.end();
                    // The value of a label inside a secret may reach out of it.
                    nested = if at < masked_to { nested + 1 } else { 0 };
                    if nested > MAX_NESTED {
                        continue;
                    }
                    if let Some(secret) = value(&Label { text, range: found.range() }) {
                        masked_to = masked_to.max(secret.range.end);
                        secrets.add(secret);
                    }
                }
            }
        }
    }
}

/// Compiles a pattern of this folder.
pub(super) fn built_in(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| unreachable!("a built-in pattern is off: {error}"))
}
