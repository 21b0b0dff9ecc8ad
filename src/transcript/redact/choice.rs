//! What the operator of a store chose: redaction on or off, and patterns of their own (contract §8.1).

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// Most memory one compiled pattern may take, in bytes. Bounds what a counted repetition can ask for.
const MAX_PATTERN_BYTES: usize = 4 * 1024 * 1024;

/// Whether a store masks credentials, and which patterns it masks beside the built-in ones. Chosen when the store is
/// made, and kept in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    on: bool,
    patterns: Vec<String>,
}

/// A pattern of the operator that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the redaction pattern {pattern:?} can't be used: {reason}")]
pub struct RejectedPattern {
    /// The pattern as given.
    pub pattern: String,
    /// Why.
    pub reason: String,
}

impl Default for Redaction {
    fn default() -> Self {
        Self::on()
    }
}

impl Redaction {
    /// The built-in patterns: what a store has that was made without a word.
    #[must_use]
    pub fn on() -> Self {
        Self { on: true, patterns: Vec::new() }
    }

    /// Texts are indexed and shown as they are.
    #[must_use]
    pub fn off() -> Self {
        Self { on: false, patterns: Vec::new() }
    }

    /// The built-in patterns and further ones, each bare (then letter case makes no difference) or as `/pattern/flags`.
    /// What its last group matched is masked, without groups the whole match. Blank patterns are ignored, and those
    /// that can't be used are handed back with the reason.
    #[must_use]
    pub fn with_patterns(patterns: impl IntoIterator<Item = String>) -> (Self, Vec<RejectedPattern>) {
        let mut redaction = Self::on();
        let mut rejected = Vec::new();
        for pattern in patterns.into_iter().filter(|pattern| !pattern.trim().is_empty()) {
            match compile(&pattern) {
                Ok(_) => redaction.patterns.push(pattern),
                Err(error) => rejected.push(error),
            }
        }
        (redaction, rejected)
    }

    /// Whether anything is masked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The operator's patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

/// Compiles an operator's pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, RejectedPattern> {
    let reject = |reason: String| RejectedPattern { pattern: pattern.to_owned(), reason };
    let (body, flags) = match pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
        Some((body, flags)) if !body.is_empty() && flags.bytes().all(|b| b.is_ascii_lowercase()) => (body, flags),
        _ => (pattern, "i"),
    };
    // Every occurrence is masked and texts are Unicode, whether `g`, `y`, `d`, `u` and `v` say so or not.
    if let Some(flag) = flags.chars().find(|flag| !"dgimsuvy".contains(*flag)) {
        return Err(reject(format!("the flag {flag:?} is unknown")));
    }
    RegexBuilder::new(body)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => reject("it is too large".to_owned()),
            // The last line says what is wrong; those before it draw the pattern.
            other => {
                let text = other.to_string();
                let last = text.lines().next_back().unwrap_or_default();
                reject(last.trim_start_matches("error: ").to_owned())
            }
        })
}
