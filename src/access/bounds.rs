//! How much of a list fits into an answer.

use serde::Serialize;

/// The length of the compact JSON of a value, in bytes.
#[must_use]
pub fn json_bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

/// How many values from the front fit as a JSON array into `limit` bytes: two for the brackets, each value and one for
/// its comma. Stops at the first that does not fit, even if a later one would (D13).
#[must_use]
pub fn num_that_fit<T: Serialize>(values: &[T], limit: usize) -> usize {
    let mut used = 2usize;
    values
        .iter()
        .take_while(|value| {
            used = used.saturating_add(json_bytes(value)).saturating_add(1);
            used <= limit
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_overflow_ends_the_list() {
        // "aaaa" is 6 bytes of JSON and one for the comma.
        let values = ["aaaa", "aaaa", "a"];
        for (limit, n) in [(2, 0), (8, 0), (9, 1), (15, 1), (16, 2), (19, 2), (20, 3)] {
            assert_eq!(num_that_fit(&values, limit), n, "{limit}");
        }
        assert_eq!(num_that_fit(&["a", &"a".repeat(100), "a"], 20), 1);
        assert_eq!(num_that_fit::<&str>(&[], 2), 0);
    }
}
