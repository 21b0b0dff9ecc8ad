//! Where data outside the repository lies, when the environment names it.

use std::path::PathBuf;

/// The folder of public texts (`english/`, `multilingual/` …), from `SESSIONS_SEARCH_TEST_DATA`.
pub(crate) fn test_data(test: &str) -> Option<PathBuf> {
    named_by("SESSIONS_SEARCH_TEST_DATA", test)
}

/// The table of all scalars' classes and folds, from `SESSIONS_SEARCH_CODEPOINTS`.
pub(crate) fn codepoints(test: &str) -> Option<PathBuf> {
    named_by("SESSIONS_SEARCH_CODEPOINTS", test)
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing has to say so")]
fn named_by(variable: &str, test: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        eprintln!("{test}: skipped, {variable} is not set");
    }
    path
}
