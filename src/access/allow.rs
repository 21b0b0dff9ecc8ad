//! Which agents may see each other's sessions at all.

use crate::model::AgentId;

/// The agent-to-agent switch and its list of patterns. Off by default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AgentToAgent {
    is_on: bool,
    patterns: Vec<String>,
}

impl AgentToAgent {
    /// No agent sees another's sessions.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// Agents see each other when both match one of the patterns; an empty list lets everyone. `*` is any agent; a
    /// pattern with stars is a glob, whatever its case; any other must be the id exactly; a blank one matches nothing.
    #[must_use]
    pub fn on(patterns: Vec<String>) -> Self {
        Self { is_on: true, patterns }
    }

    /// Whether the switch is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the list lets these two see each other. The same agent always does.
    #[must_use]
    pub fn allows(&self, a: &AgentId, b: &AgentId) -> bool {
        a == b || self.is_on && self.lists(a) && self.lists(b)
    }

    fn lists(&self, agent: &AgentId) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| matches(pattern.trim(), agent.as_str()))
    }
}

/// Time is linear in the id for every part of the pattern between two stars; the parts are found left to right and never
/// looked for again.
fn matches(pattern: &str, id: &str) -> bool {
    if pattern.is_empty() {
        return false;
    }
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == id };
    let (start, rest) = (start.to_lowercase(), rest.to_lowercase());
    // Agent ids are lower case already.
    let Some(mut left) = id.strip_prefix(start.as_str()) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_exact_or_globs() {
        for (pattern, id, expected) in [
            ("*", "work", true),
            ("work", "work", true),
            ("Work", "work", false),
            ("WO*", "work", true),
            ("*rk", "work", true),
            ("w*k", "work", true),
            ("w*o*k", "work", true),
            ("w*r*o*", "work", false),
            ("wo*ork", "work", false),
            ("**", "work", true),
            ("work*", "work", true),
            ("*work*", "homework-2", true),
            ("", "work", false),
            ("wor", "work", false),
            ("ab*ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern} {id}");
        }
        let long = format!("{}b", "a*".repeat(5_000));
        assert!(!matches(&long, &"a".repeat(64)));
    }

    #[test]
    fn both_sides_must_be_listed() {
        let [main, work] = ["main", "work"].map(|id| AgentId::parse(id).unwrap());
        let on = |patterns: &[&str]| AgentToAgent::on(patterns.iter().map(|&p| p.to_owned()).collect());
        assert!(on(&[]).allows(&main, &work));
        assert!(on(&["main", "w*"]).allows(&main, &work));
        assert!(!on(&["main"]).allows(&main, &work) && !on(&["work"]).allows(&main, &work));
        assert!(!on(&["  "]).allows(&main, &work));
        assert!(on(&["  "]).allows(&main, &main));
        assert!(!AgentToAgent::off().allows(&main, &work) && AgentToAgent::off().allows(&main, &main));
    }
}
