//! Times of messages: whole milliseconds since the Unix epoch, or unknown (D9).

use std::fmt;

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
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

    fn utc(self) -> Option<DateTime> {
        let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
        epoch.checked_add(jiff::SignedDuration::from_millis(self.0)).ok()
    }

    /// RFC 3339 in UTC with exactly three digits of the second's fraction, as JavaScript writes it.
    #[must_use]
    pub fn to_iso_millis(self) -> String {
        self.utc().map_or_else(String::new, |t| format!("{t:.3}Z"))
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
        } else if let Some(millis) = millis_of_pieces(trimmed) {
            millis
        } else if let Ok(civil) = trimmed.parse::<DateTime>() {
            utc_millis(civil)
        } else {
            return Err(fail("expected RFC 3339, such as 2026-07-01T08:00:00Z"));
        };
        Self::from_millis(millis).ok_or_else(|| fail(OUT_OF_RANGE))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, or `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.utc() {
            Some(t) if self.is_known() => write!(f, "{t}Z"),
            _ => f.write_str("unknown"),
        }
    }
}

/// `jiff::Timestamp` ends a day before the year does, so that every zone can show it; times of ours go on to its end.
fn utc_millis(civil: DateTime) -> i64 {
    let since_epoch = civil.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    since_epoch.as_secs() * 1_000 + i64::from(since_epoch.subsec_millis())
}

/// A time with its offset from UTC, however late.
fn millis_of_pieces(text: &str) -> Option<i64> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    Some(utc_millis(pieces.date().to_datetime(pieces.time()?)) - i64::from(offset.seconds()) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_to_the_end_of_the_year_9999() {
        let last = Timestamp(YEAR_10000_MS - 1);
        for text in ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999", "9999-12-31T22:59:59.999-01:00"] {
            assert_eq!(Timestamp::parse_iso(text), Ok(last), "{text}");
        }
        assert_eq!(last.to_iso_millis(), "9999-12-31T23:59:59.999Z");
        assert_eq!(last.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::parse_iso("9999-12-31").map(Timestamp::as_millis), Ok(YEAR_10000_MS - 86_400_000));
        for text in ["9999-12-31T23:59:59.999-00:01", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00"] {
            assert!(Timestamp::parse_iso(text).is_err_and(|error| error.is_out_of_range()), "{text}");
        }
        for text in ["9999-12-32", "9999-12-31T25:00:00Z", "9999-12-31T23:59:59Q"] {
            assert!(Timestamp::parse_iso(text).is_err_and(|error| !error.is_out_of_range()), "{text}");
        }
        assert_eq!(Timestamp(1_782_892_801_000).to_iso_millis(), "2026-07-01T08:00:01.000Z");
        assert_eq!(Timestamp(1_782_892_801_000).to_string(), "2026-07-01T08:00:01Z");
        assert_eq!(Timestamp(1_782_892_801_050).to_string(), "2026-07-01T08:00:01.05Z");
    }
}
