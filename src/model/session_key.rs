//! The grammar of session keys (contract §1.3).
//!
//! ```text
//! key      := scoped | sentinel | alias | legacy
//! scoped   := "agent:" agent ":" rest     at least three segments that are not empty
//! sentinel := "global" | "unknown"        never get an agent prefix
//! alias    := "main" | "current"          accepted as input, never stored as such
//! legacy   := anything else               cron:…, hook:…, node-…, acp:…, subagent:…
//! ```

use super::{AgentId, IdError, SessionId, SessionKey, is_js_space};

/// The forms a session key can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// `agent:<agent>:<rest>`.
    Scoped,
    /// `global` or `unknown`: one of each an agent, without a prefix.
    Sentinel,
    /// `main` or `current`: stands for another key.
    Alias,
    /// A bare key.
    Legacy,
}

/// What `main` stands for (contract §1.3, alias rules).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyAliases {
    main: SessionKey,
    is_global: bool,
}

impl Default for KeyAliases {
    fn default() -> Self {
        Self { main: SessionKey::alias_main(), is_global: false }
    }
}

impl KeyAliases {
    /// `main_key` names the agent's main chat; with `is_global` all senders share the session `global`.
    #[must_use]
    pub fn new(main_key: SessionKey, is_global: bool) -> Self {
        Self { main: main_key, is_global }
    }

    /// The key under which `agent` stores what `key` names: `main` and the main key become the agent's main session,
    /// every other key stays as it is.
    ///
    /// # Errors
    /// [`IdError::TooLong`].
    pub fn stored(&self, agent: &AgentId, key: &SessionKey) -> Result<SessionKey, IdError> {
        let is_main = *key == self.main || key.as_str() == SessionKey::MAIN;
        match (is_main, self.is_global) {
            (false, _) => Ok(key.clone()),
            (true, true) => SessionKey::parse("global"),
            (true, false) => SessionKey::parse(&format!("agent:{agent}:{}", self.main)),
        }
    }

    /// The key in full: as [`KeyAliases::stored`], and every other bare key but `global` and `unknown` gets the
    /// agent's prefix.
    ///
    /// # Errors
    /// [`IdError::TooLong`].
    pub fn canonical(&self, agent: &AgentId, key: &SessionKey) -> Result<SessionKey, IdError> {
        let stored = self.stored(agent, key)?;
        match stored.form() {
            KeyForm::Scoped | KeyForm::Sentinel => Ok(stored),
            KeyForm::Alias | KeyForm::Legacy => SessionKey::parse(&format!("agent:{agent}:{stored}")),
        }
    }

    /// The bare main key.
    #[must_use]
    pub fn main_key(&self) -> &SessionKey {
        &self.main
    }

    /// How a key is shown: as `main` to whoever asked for `main`, else unchanged.
    #[must_use]
    pub fn display<'k>(&self, asked: Option<&'k str>, key: &'k SessionKey) -> &'k str {
        let asked_main = asked
            .and_then(|asked| SessionKey::parse(asked).ok())
            .is_some_and(|asked| asked == self.main || asked.as_str() == SessionKey::MAIN);
        if asked_main { SessionKey::MAIN } else { key.as_str() }
    }
}

impl SessionKey {
    /// What stands for the main session.
    pub const MAIN: &'static str = "main";
    /// What stands for the session that asks.
    pub const CURRENT: &'static str = "current";

    /// The key `main`.
    #[must_use]
    pub fn alias_main() -> Self {
        // A short word that is not blank is always a key.
        Self::parse(Self::MAIN).unwrap_or_else(|_| unreachable!("`main` is a key"))
    }

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

    /// The agent of a scoped key; `None` for a bare key and for one whose agent part is no agent id.
    #[must_use]
    pub fn agent(&self) -> Option<AgentId> {
        self.agent_part().and_then(|part| AgentId::parse(part).ok())
    }

    /// Which form of the grammar the key has.
    #[must_use]
    pub fn form(&self) -> KeyForm {
        match self.as_str() {
            "global" | "unknown" => KeyForm::Sentinel,
            "main" | "current" => KeyForm::Alias,
            _ if self.agent_part().is_some() => KeyForm::Scoped,
            _ => KeyForm::Legacy,
        }
    }

    /// How deep the session stands below others: the number of `subagent` segments that name one.
    #[must_use]
    pub fn subagent_depth(&self) -> usize {
        let mut segments = self.rest().peekable();
        let mut depth = 0;
        while let Some(segment) = segments.next() {
            depth += usize::from(segment == "subagent" && segments.peek().is_some());
        }
        depth
    }

    /// Whether the key is one of a sub-agent's session.
    #[must_use]
    pub fn is_subagent(&self) -> bool {
        self.subagent_depth() > 0
    }

    /// Whether the key is one of an external harness's session.
    #[must_use]
    pub fn is_acp(&self) -> bool {
        self.rest().any(|segment| segment == "acp")
    }

    /// Whether the key is one run of a scheduled job (`cron:<job>:run:<run>`): never listed, only asked for by name.
    #[must_use]
    pub fn is_cron_run(&self) -> bool {
        let mut rest = self.rest();
        self.as_str().contains(":run:")
            && rest.next() == Some("cron")
            && rest.next().is_some()
            && rest.by_ref().any(|segment| segment == "run")
            && rest.next().is_some()
    }

    /// Whether a text has the form of a session id that was made by a program: 8-4-4-4-12 hex digits.
    #[must_use]
    pub fn looks_like_session_id(text: &str) -> bool {
        let lengths = [8, 4, 4, 4, 12];
        let groups = text.trim_matches(is_js_space).split('-');
        groups.clone().count() == lengths.len()
            && groups.zip(lengths).all(|(group, n)| group.len() == n && group.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    /// Whether a text has the form of a session key. What has not may be a session id.
    #[must_use]
    pub fn looks_like_key(text: &str) -> bool {
        let Ok(key) = Self::parse(text) else { return false };
        let text = key.as_str();
        matches!(text, "main" | "global" | "unknown" | "current")
            || ["agent:", "cron:", "hook:", "node-", "node:", "acp:"].iter().any(|start| text.starts_with(start))
            || [":group:", ":channel:"].iter().any(|part| text.contains(part))
    }

    /// Whether the key is one of a session that must never be stored (D19). The text of the key alone tells.
    #[must_use]
    pub fn is_incognito(&self) -> bool {
        let mut previous = "";
        // Asked of every session of a store: most keys are told by one look.
        self.as_str().contains("incognito-")
            && self.segments().any(|segment| {
                let kind = std::mem::replace(&mut previous, segment);
                matches!(kind, "dashboard" | "subagent" | "internal-session-effects")
                    && segment.starts_with("incognito-")
            })
    }

    /// The kind of conversation: `main`, `group`, `cron`, `hook`, `node` or `other` (contract §7.2).
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let rest: Vec<&str> = self.rest().take(2).collect();
        match rest.as_slice() {
            ["main"] => "main",
            ["cron", ..] => "cron",
            ["hook", ..] => "hook",
            [first, ..] if *first == "node" || first.starts_with("node-") => "node",
            [_, "group" | "channel"] => "group",
            _ => "other",
        }
    }

    /// The segments after a scoped key's agent; all segments of every other key.
    fn rest(&self) -> impl Iterator<Item = &str> {
        self.segments().skip(if self.agent_part().is_some() { 2 } else { 0 })
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

    fn key(text: &str) -> SessionKey {
        SessionKey::parse(text).unwrap()
    }

    #[test]
    fn keys_tell_their_form() {
        for (text, form) in [
            ("agent:main:main", KeyForm::Scoped),
            ("agent::main:::x", KeyForm::Scoped),
            ("agent:main", KeyForm::Legacy),
            ("agent:main:", KeyForm::Legacy),
            ("GLOBAL ", KeyForm::Sentinel),
            ("unknown", KeyForm::Sentinel),
            ("main", KeyForm::Alias),
            ("Current", KeyForm::Alias),
            ("cron:nightly", KeyForm::Legacy),
            ("acp:1", KeyForm::Legacy),
            ("node-7", KeyForm::Legacy),
        ] {
            assert_eq!(key(text).form(), form, "{text}");
        }
        assert_eq!(key("agent:WORK:x").agent(), Some(AgentId::parse("work").unwrap()));
        assert_eq!(key("agent:w.rk:x").agent(), None);
    }

    #[test]
    fn subagents_runs_and_harnesses_are_seen_in_the_key() {
        for (text, depth) in [
            ("agent:main:main", 0),
            ("agent:main:subagent:1", 1),
            ("agent:main:subagent:1:subagent:2", 2),
            ("subagent:1", 1),
            ("agent:main:subagent", 0),
            ("agent:subagent:main", 0),
        ] {
            assert_eq!(key(text).subagent_depth(), depth, "{text}");
        }
        for (text, is_run) in [
            ("agent:main:cron:nightly:run:1", true),
            ("cron:nightly:run:1", true),
            ("cron:nightly:of:all:run:1", true),
            ("agent:main:cron:nightly", false),
            ("agent:main:cron:run:1", false),
            ("agent:main:cron:nightly:run", false),
            ("agent:cron:x:run:1", false),
        ] {
            assert_eq!(key(text).is_cron_run(), is_run, "{text}");
        }
        assert!(key("agent:codex:acp:1").is_acp() && key("acp:1").is_acp() && !key("agent:acp:main").is_acp());
    }

    #[test]
    fn key_families_look_like_keys_and_uuids_like_session_ids() {
        for text in [
            "main",
            " Global ",
            "unknown",
            "current",
            "agent:main:main",
            "cron:x",
            "hook:x",
            "node-1",
            "node:1",
            "acp:1",
            "telegram:group:-1",
            "discord:channel:5",
        ] {
            assert!(SessionKey::looks_like_key(text), "{text}");
        }
        let uuid = "0F0e1d2c-3b4a-5968-7786-95a4b3c2d1e0";
        for text in ["otter", "", "mainly", "nodes", uuid] {
            assert!(!SessionKey::looks_like_key(text), "{text}");
        }
        assert!(SessionKey::looks_like_session_id(uuid) && SessionKey::looks_like_session_id(&format!(" {uuid} ")));
        for text in ["0f0e", "0f0e1d2c-3b4a-5968-7786-95a4b3c2d1eg", "0f0e1d2c3b4a5968778695a4b3c2d1e0", &uuid[1..]] {
            assert!(!SessionKey::looks_like_session_id(text), "{text}");
        }
    }

    #[test]
    fn main_stands_for_the_agents_main_session() {
        let (aliases, work) = (KeyAliases::default(), AgentId::parse("work").unwrap());
        let canonical = |text: &str| aliases.canonical(&work, &key(text)).unwrap().as_str().to_owned();
        assert_eq!(canonical("main"), "agent:work:main");
        assert_eq!(canonical("global"), "global");
        assert_eq!(canonical("cron:x"), "agent:work:cron:x");
        assert_eq!(canonical("agent:main:main"), "agent:main:main");
        assert_eq!(aliases.stored(&work, &key("cron:x")).unwrap(), key("cron:x"));

        let global = KeyAliases::new(key("home"), true);
        assert_eq!(global.canonical(&work, &key("main")).unwrap(), key("global"));
        assert_eq!(global.stored(&work, &key("home")).unwrap(), key("global"));
        let renamed = KeyAliases::new(key("home"), false);
        assert_eq!(renamed.stored(&work, &key("main")).unwrap(), key("agent:work:home"));

        let full = key("agent:main:main");
        assert_eq!(aliases.display(Some(" Main "), &full), "main");
        assert_eq!(aliases.display(Some("agent:main:main"), &full), "agent:main:main");
        assert_eq!(aliases.display(None, &full), "agent:main:main");
        assert_eq!(global.display(Some("main"), &key("global")), "main");
    }
}
