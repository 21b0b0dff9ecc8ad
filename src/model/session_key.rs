//! The grammar of session keys (contract §1.3), as far as more than one layer asks for it.

use super::{AgentId, IdError, SessionId, SessionKey};

impl SessionKey {
    /// The key of a transcript that nothing names: `agent:<agent>:<format>:<session id>` (D25).
    ///
    /// # Errors
    /// [`IdError::TooLong`] when the session id leaves no room for the rest.
    pub fn of_transcript(agent: &AgentId, format: &str, session_id: &SessionId) -> Result<Self, IdError> {
        Self::parse(&format!("agent:{agent}:{format}:{session_id}"))
    }

    /// The agent part of a scoped key (`agent:<agent>:<rest>`), as written; `None` for every other key.
    #[must_use]
    pub fn agent_part(&self) -> Option<&str> {
        let mut segments = self.segments();
        let (scheme, agent, rest) = (segments.next()?, segments.next()?, segments.next());
        (scheme == "agent" && rest.is_some()).then_some(agent)
    }

    /// Whether the key is one of a session that must never be stored (D19). The text of the key alone tells.
    #[must_use]
    pub fn is_incognito(&self) -> bool {
        let mut previous = "";
        self.segments().any(|segment| {
            let kind = std::mem::replace(&mut previous, segment);
            matches!(kind, "dashboard" | "subagent" | "internal-session-effects") && segment.starts_with("incognito-")
        })
    }

    /// The kind of conversation: `main`, `group`, `cron`, `hook`, `node` or `other` (contract §7.2).
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let skipped = if self.agent_part().is_some() { 2 } else { 0 };
        let rest: Vec<&str> = self.segments().skip(skipped).take(2).collect();
        match rest.as_slice() {
            ["main"] => "main",
            ["cron", ..] => "cron",
            ["hook", ..] => "hook",
            [first, ..] if *first == "node" || first.starts_with("node-") => "node",
            [_, "group" | "channel"] => "group",
            _ => "other",
        }
    }

    /// The segments that count: empty ones are ignored.
    fn segments(&self) -> impl Iterator<Item = &str> {
        self.as_str().split(':').filter(|segment| !segment.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_part_needs_three_segments() {
        let agent = |key: &str| SessionKey::parse(key).unwrap().agent_part().map(str::to_owned);
        assert_eq!(agent("agent:work:main").as_deref(), Some("work"));
        assert_eq!(agent("Agent::Work::telegram:group:-1").as_deref(), Some("work"));
        for key in ["agent:work", "agent::work:", "main", "global", "cron:job:run", "work:agent:x"] {
            assert_eq!(agent(key), None, "{key}");
        }
    }

    #[test]
    fn incognito_is_seen_in_the_key() {
        let incognito = |key: &str| SessionKey::parse(key).unwrap().is_incognito();
        assert!(incognito("agent:main:dashboard:incognito-1"));
        assert!(incognito("agent:main:subagent:x:subagent:incognito-1"));
        assert!(incognito("internal-session-effects:incognito-1"));
        assert!(!incognito("agent:main:telegram:group:incognito-1"));
        assert!(!incognito("agent:main:dashboard:incognito"));
        assert!(!incognito("agent:main:dashboard:x:incognito-1"));
    }

    #[test]
    fn keys_tell_their_kind() {
        for (key, kind) in [
            ("agent:main:main", "main"),
            ("main", "main"),
            ("agent:main:telegram:group:-1001", "group"),
            ("agent:main:discord:channel:5:thread:7", "group"),
            ("cron:nightly", "cron"),
            ("agent:main:cron:nightly:run:1", "cron"),
            ("hook:1", "hook"),
            ("node-7", "node"),
            ("agent:main:subagent:1", "other"),
            ("global", "other"),
        ] {
            assert_eq!(SessionKey::parse(key).unwrap().kind(), kind, "{key}");
        }
    }
}
