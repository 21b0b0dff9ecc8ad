//! Identifiers as types, so that a session id can never stand where a key is asked.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_AGENT_ID_BYTES, MAX_ID_BYTES};

/// Why a text is not an identifier of the asked kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Nothing but white space.
    #[error("{what} must not be blank")]
    Blank {
        /// Which identifier was asked for.
        what: &'static str,
    },
    /// Longer than [`MAX_ID_BYTES`](crate::limits::MAX_ID_BYTES).
    #[error("{what} is longer than {limit} bytes")]
    TooLong {
        /// Which identifier was asked for.
        what: &'static str,
        /// The bound in bytes.
        limit: usize,
    },
    /// An agent id outside the grammar of contract §1.1.
    #[error(
        "agent id {given:?} is not valid: start with a letter or digit, then letters, digits, `_` or `-`, at most 64"
    )]
    AgentGrammar {
        /// The text as given.
        given: String,
    },
}

/// An agent: a letter or digit, then letters, digits, `_`, `-`, at most 64 bytes, lower case (contract §1.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId(Box<str>);

impl AgentId {
    /// The agent that is meant when none is named.
    pub const DEFAULT: &'static str = "main";

    /// Reads an agent id; case is folded, nothing else is changed.
    ///
    /// # Errors
    /// [`IdError::AgentGrammar`] for anything outside the grammar, path separators and dots included.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let folded = text.trim().to_ascii_lowercase();
        let ok = folded.len() <= MAX_AGENT_ID_BYTES
            && folded.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && folded.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if ok { Ok(Self(folded.into())) } else { Err(IdError::AgentGrammar { given: text.to_owned() }) }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AgentId {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl TryFrom<String> for AgentId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.0.into()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $fold:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Reads the id, white space around it removed.
            ///
            /// # Errors
            /// [`IdError::Blank`] and [`IdError::TooLong`] (in bytes).
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let fold: fn(&str) -> String = $fold;
                let text = fold(text.trim_matches(crate::model::ids::is_js_space));
                if text.is_empty() {
                    return Err(IdError::Blank { what: $what });
                }
                if text.len() > MAX_ID_BYTES {
                    return Err(IdError::TooLong { what: $what, limit: MAX_ID_BYTES });
                }
                Ok(Self(text.into()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// Names ONE transcript (a window of a session key). Kept as given, white space around it removed.
    SessionId, "session id", str::to_owned
);
text_id!(
    /// Names a conversation bucket; one key has one or more windows (contract §1.3). Compared trimmed and lower-cased.
    SessionKey, "session key", str::to_lowercase
);
text_id!(
    /// Names an event inside one session. Kept as given, white space around it removed.
    MessageId, "message id", str::to_owned
);

/// White space as JavaScript's `trim` and `\s` see it: U+FEFF counts, U+0085 does not (fts5-semantics §3.1).
#[must_use]
pub fn is_js_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}'
    )
}

/// The number of a document (a searchable message): grows, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DocNumber(pub u64);

/// The ordinal of one build of a session's documents: grows, never reused. A rebuild writes under a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Ordinal(pub u32);

/// The place of an event in its session, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventSeq(pub u64);
