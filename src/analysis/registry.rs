//! The analyzers a program knows, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Analyzer, Cjk, UnicodeWord};

/// The analyzers that stores may be made with or were made with: the built-in ones, and what a program adds.
///
/// ```
/// use sessions_search::Analyzers;
/// assert_eq!(Analyzers::default().names().collect::<Vec<_>>(), ["cjk", "unicode-word"]);
/// ```
#[derive(Clone)]
pub struct Analyzers {
    by_name: BTreeMap<&'static str, Arc<dyn Analyzer>>,
}

/// Why an analyzer was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is an analyzer named {name:?} already; give yours another name")]
pub struct AnalyzerNameTaken {
    /// The name.
    pub name: String,
}

impl Default for Analyzers {
    /// The built-in ones.
    fn default() -> Self {
        let built_in: [Arc<dyn Analyzer>; 2] = [Arc::new(UnicodeWord), Arc::new(Cjk)];
        Self { by_name: built_in.into_iter().map(|analyzer| (analyzer.name(), analyzer)).collect() }
    }
}

impl fmt::Debug for Analyzers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Analyzers {
    /// Adds one.
    ///
    /// # Errors
    /// [`AnalyzerNameTaken`]: stores know analyzers by their names, so none may stand for two.
    pub fn add(&mut self, analyzer: Arc<dyn Analyzer>) -> Result<(), AnalyzerNameTaken> {
        let name = analyzer.name();
        if self.by_name.contains_key(name) {
            return Err(AnalyzerNameTaken { name: name.to_owned() });
        }
        self.by_name.insert(name, analyzer);
        Ok(())
    }

    /// The one with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<dyn Analyzer>> {
        self.by_name.get(name).cloned()
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_analyzer() {
        let mut analyzers = Analyzers::default();
        assert_eq!(analyzers.add(Arc::new(UnicodeWord)), Err(AnalyzerNameTaken { name: "unicode-word".into() }));
        assert_eq!(analyzers.find("cjk").map(|analyzer| analyzer.name()), Some("cjk"));
        assert!(analyzers.find("porter").is_none());
    }
}
