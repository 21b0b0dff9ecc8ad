//! Times of messages: whole milliseconds since the Unix epoch, or unknown (D9).

use std::fmt;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. [`Timestamp::UNKNOWN`] is older than every known time.
///
/// ```
/// use sessions_search::Timestamp;
/// let t = Timestamp::parse_iso("2026-07-01T08:00:01.000Z").expect("a valid time");
/// assert_eq!(t.as_millis(), 1_782_892_801_000);
/// assert!(Timestamp::UNKNOWN < t);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// Why a time is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a time: {reason}")]
pub struct TimeError {
    /// The text as given.
    pub given: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

const OUT_OF_RANGE: &str = "outside the years 1970 to 9999";

impl TimeError {
    /// Whether the text is a time, but none of the known range.
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        self.reason == OUT_OF_RANGE
    }
}

/// The first millisecond of the year 10000: from here on a time is unknown (D9).
const YEAR_10000_MS: i64 = 253_402_300_800_000;

impl Timestamp {
    /// Not known. Shown as 0 in JSON and as "unknown" to people.
    pub const UNKNOWN: Self = Self(0);

    /// A time in milliseconds; `None` outside 1 … end of the year 9999.
    #[must_use]
    pub fn from_millis(millis: i64) -> Option<Self> {
        (1..YEAR_10000_MS).contains(&millis).then_some(Self(millis))
    }

    /// Milliseconds since the epoch; 0 when unknown.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Whether the time is known.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// RFC 3339 in UTC with exactly three digits of the second's fraction, as JavaScript writes it.
    #[must_use]
    pub fn to_iso_millis(self) -> String {
        jiff::Timestamp::from_millisecond(self.0).map_or_else(|_| String::new(), |t| format!("{t:.3}"))
    }

    /// Reads RFC 3339 / ISO 8601: a date, or a date and a time, with a zone or (then UTC) without.
    ///
    /// # Errors
    /// [`TimeError`] when the text is no such time or lies outside the known range.
    pub fn parse_iso(text: &str) -> Result<Self, TimeError> {
        let fail = |reason| TimeError { given: text.chars().take(64).collect(), reason };
        let trimmed = text.trim();
        let millis = if let Ok(t) = trimmed.parse::<jiff::Timestamp>() {
            t.as_millisecond()
        } else if let Ok(civil) = trimmed.parse::<jiff::civil::DateTime>() {
            civil.to_zoned(TimeZone::UTC).map_err(|_| fail("out of range"))?.timestamp().as_millisecond()
        } else if let Ok(date) = trimmed.parse::<jiff::civil::Date>() {
            date.to_zoned(TimeZone::UTC).map_err(|_| fail("out of range"))?.timestamp().as_millisecond()
        } else {
            return Err(fail("expected RFC 3339, such as 2026-07-01T08:00:00Z"));
        };
        Self::from_millis(millis).ok_or_else(|| fail(OUT_OF_RANGE))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, or `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) if self.is_known() => write!(f, "{t}"),
            _ => f.write_str("unknown"),
        }
    }
}
