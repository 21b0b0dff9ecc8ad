//! Who sees what: the decision table of visibility, cell by cell, and what a text names to whom. Rules alone, no store.

use std::collections::BTreeMap;
use std::convert::Infallible;

use sessions_search::__internal::access::{Catalogue, Lineage, Target};
use sessions_search::{
    AgentId, AgentToAgent, KeyAliases, Refusal, Requester, RequesterError, SandboxClamp, SessionFacts, SessionId,
    SessionKey, Visibility,
};

const R: &str = "agent:main:telegram:direct:bo";

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

fn agent(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

fn requester() -> Requester {
    Requester::new(R, None).unwrap()
}

/// The six columns of the table.
fn columns() -> [(&'static str, Requester); 6] {
    let all = requester().with_visibility(Visibility::All);
    let on = |patterns: &[&str]| AgentToAgent::on(patterns.iter().map(|&p| p.to_owned()).collect());
    [
        ("self", requester().with_visibility(Visibility::SelfOnly)),
        ("tree", requester()),
        ("agent", requester().with_visibility(Visibility::Agent)),
        ("all, off", all.clone()),
        ("all, pair ok", all.clone().with_agent_to_agent(on(&["main", "wo*"]))),
        ("all, pair not ok", all.with_agent_to_agent(on(&["main", "other"]))),
    ]
}

/// A stored session.
#[derive(Clone)]
struct Row {
    agent: &'static str,
    key: &'static str,
    facts: SessionFacts,
}

fn row(agent: &'static str, key: &'static str) -> Row {
    Row { agent, key, facts: SessionFacts::default() }
}

fn spawned_by(parent: &str, mut row: Row) -> Row {
    row.facts.spawned_by = Some(key(parent));
    row
}

/// Whether the row rule lets it be seen, and whether a search without keys meets it.
fn seen(requester: &Requester, row: &Row) -> (bool, bool) {
    let (agent, key) = (agent(row.agent), key(row.key));
    let target = Target { agent: &agent, key: &key, lineage: Lineage::of(&row.facts) };
    (requester.judge(&target).is_ok(), requester.meets(&target).is_some())
}

#[test]
fn v10_v11_v13_v24_the_decision_table() {
    let child = "agent:main:subagent:1";
    let mut archived_child = spawned_by(R, row("main", "agent:main:subagent:2"));
    archived_child.facts.archived = true;
    let mut archived_other = row("main", "agent:main:dashboard:7");
    archived_other.facts.archived = true;
    let mut own_parent = row("main", "agent:main:main");
    own_parent.facts.label = Some("R's parent".into());
    #[rustfmt::skip]
    let table: Vec<(&str, Row, [bool; 6])> = vec![
        //                                                                                       self   tree   agent  off    ok     not ok
        ("R itself",                    row("main", R),                                         [true,  true,  true,  true,  true,  true]),
        ("direct child",                spawned_by(R, row("main", child)),                      [false, true,  true,  true,  true,  true]),
        ("direct child, other agent",   spawned_by(R, row("work", "agent:work:acp:1")),         [false, true,  false, true,  true,  true]),
        ("grandchild",                  spawned_by(child, row("main", "agent:main:subagent:1:subagent:2")), [false, false, true, true, true, true]),
        ("R's own parent",              own_parent,                                             [false, false, true,  true,  true,  true]),
        ("unrelated, same agent",       row("main", "agent:main:dashboard:1"),                  [false, false, true,  true,  true,  true]),
        ("unrelated, other agent",      row("work", "agent:work:main"),                         [false, false, false, false, true,  false]),
        ("archived child",              archived_child,                                         [false, true,  true,  true,  true,  true]),
        ("archived, same agent",        archived_other,                                         [false, false, true,  true,  true,  true]),
        ("incognito",                   spawned_by(R, row("main", "agent:main:dashboard:incognito-1")), [false; 6]),
        ("own global",                  row("main", "global"),                                  [false, false, true,  true,  true,  true]),
    ];
    for (name, row, expected) in &table {
        for ((column, requester), expected) in columns().iter().zip(expected) {
            assert_eq!(seen(requester, row), (*expected, *expected), "{name}, {column}");
        }
    }
    // A bare key of another agent: no search meets it, whatever the rule says of the row.
    for (column, requester) in columns() {
        assert!(!seen(&requester, &row("work", "global")).1, "global, {column}");
    }
    // A run of a scheduled job is not met; by name the row rule decides.
    for ((column, requester), judged) in columns().iter().zip([false, false, true, true, true, true]) {
        assert_eq!(seen(requester, &row("main", "agent:main:cron:x:run:1")), (judged, false), "run, {column}");
    }
    let run = Requester::new("agent:main:cron:x:run:1", None).unwrap();
    assert_eq!(seen(&run, &row("main", "agent:main:cron:x:run:1")), (true, true));
    // In a sandbox: itself and its direct children, whatever the mode; a sandbox never widens `self`.
    for (column, requester) in columns() {
        let sandboxed = requester.in_sandbox(SandboxClamp::Spawned);
        for (name, row, _) in &table {
            let expected = match *name {
                "R itself" => true,
                "direct child" | "direct child, other agent" | "archived child" => column != "self",
                _ => false,
            };
            assert_eq!(seen(&sandboxed, row), (expected, expected), "sandboxed, {name}, {column}");
        }
    }
}

#[test]
fn v1_v2_visibility_unset_invalid_or_in_mixed_case() {
    for (text, expected) in [
        (None, Visibility::Tree),
        (Some("everything"), Visibility::Tree),
        (Some(""), Visibility::Tree),
        (Some(" ALL "), Visibility::All),
        (Some("Self"), Visibility::SelfOnly),
        (Some("aGent"), Visibility::Agent),
    ] {
        assert_eq!(Visibility::from_setting(text), expected, "{text:?}");
    }
}

#[test]
fn v3_v4_v5_v30_the_sandbox_clamp() {
    let all = requester().with_visibility(Visibility::All);
    assert_eq!(all.clone().in_sandbox(SandboxClamp::default()).effective_visibility(), Visibility::Tree);
    assert!(all.clone().in_sandbox(SandboxClamp::Spawned).is_restricted_to_spawned());
    assert_eq!(all.clone().in_sandbox(SandboxClamp::All).effective_visibility(), Visibility::All);
    assert!(!all.in_sandbox(SandboxClamp::All).is_restricted_to_spawned());
    assert_eq!(SandboxClamp::from_setting(None), SandboxClamp::Spawned);
    assert_eq!(SandboxClamp::from_setting(Some("none")), SandboxClamp::Spawned);
    assert_eq!(SandboxClamp::from_setting(Some("ALL")), SandboxClamp::All);
    let own = requester().with_visibility(Visibility::SelfOnly).in_sandbox(SandboxClamp::Spawned);
    assert_eq!(own.effective_visibility(), Visibility::SelfOnly);
}

#[test]
fn v6_a_sandboxed_sub_agent_is_clamped_but_not_restricted() {
    let sub = Requester::new("agent:main:subagent:1", None).unwrap().with_visibility(Visibility::All);
    let sub = sub.in_sandbox(SandboxClamp::Spawned);
    assert!(!sub.is_restricted_to_spawned());
    assert_eq!(sub.effective_visibility(), Visibility::Tree);
}

#[test]
fn v14_owner_and_parent_count_as_spawning_does() {
    for field in 0..3 {
        let mut row = row("work", "agent:work:acp:9");
        let of = Some(key(R));
        match field {
            0 => row.facts.owner = of,
            1 => row.facts.parent = of,
            _ => row.facts.spawned_by = of,
        }
        assert!(seen(&requester(), &row).0, "{field}");
        // A restricted caller needs a proven child.
        let restricted = requester().in_sandbox(SandboxClamp::Spawned);
        assert_eq!(seen(&restricted, &row).0, field != 0, "{field}");
    }
}

#[test]
fn v15_v16_v18_bare_keys_belong_to_the_agent_whose_store_holds_them() {
    let work = Requester::new("global", Some(agent("work"))).unwrap();
    assert!(seen(&work, &row("work", "global")).0);
    for mode in [Visibility::SelfOnly, Visibility::Tree, Visibility::Agent, Visibility::All] {
        assert!(!seen(&work.clone().with_visibility(mode), &row("main", "global")).0, "{mode:?}");
        assert!(!seen(&work.clone().with_visibility(mode), &row("main", "cron:nightly")).0, "{mode:?}");
        // "Spawned by global" in another agent's store speaks of that agent's global.
        assert!(!seen(&work.clone().with_visibility(mode), &spawned_by("global", row("main", "agent:main:x"))).0);
    }
    assert!(seen(&work, &spawned_by("global", row("work", "agent:work:x"))).0);
}

#[test]
fn a_key_that_names_another_agent_than_its_store_needs_both() {
    let smuggled = row("main", "agent:work:main");
    for (column, requester) in columns() {
        assert_eq!(seen(&requester, &smuggled).0, column == "all, pair ok", "{column}");
    }
    let work = Requester::new("agent:work:main", None).unwrap().with_visibility(Visibility::Agent);
    assert!(!seen(&work, &smuggled).0, "equal key, but not in its own store");
    assert!(!seen(&requester().with_visibility(Visibility::Agent), &row("main", "agent:w.rk:x")).0);
}

#[test]
fn v23_main_is_no_better_than_others_under_tree() {
    let main = Requester::new("main", None).unwrap();
    assert_eq!(main.key(), &key("agent:main:main"));
    assert!(seen(&main, &row("main", "agent:main:main")).0);
    assert!(seen(&main, &row("main", "main")).0, "the alias, stored by mistake, is the same session");
    assert!(seen(&main, &spawned_by("main", row("main", "agent:main:subagent:1"))).0);
    assert!(!seen(&main, &row("main", "agent:main:dashboard:1")).0);
    assert!(!seen(&main, &spawned_by("main", row("work", "agent:work:subagent:1"))).0);
}

#[test]
fn v26_main_under_global_scope_is_global() {
    let aliases = KeyAliases::new(key("main"), true);
    let main = Requester::with_aliases("main", None, aliases).unwrap();
    assert_eq!(main.key(), &key("global"));
    assert!(seen(&main, &row("main", "global")).0);
}

#[test]
fn a_requester_is_one_agents() {
    assert_eq!(Requester::new("agent:Work:x", None).unwrap().agent(), &agent("work"));
    assert_eq!(Requester::new("cron:x", Some(agent("work"))).unwrap().agent(), &agent("work"));
    let error = Requester::new("agent:work:x", Some(agent("main"))).unwrap_err();
    assert!(error.to_string().contains("work") && error.to_string().contains("main"), "{error}");
    assert_eq!(Requester::new("current", None).unwrap_err(), RequesterError::Current);
    assert!(Requester::new("agent:../x:y", None).is_err() && Requester::new(" ", None).is_err());
}

#[test]
fn the_operator_sees_one_agent_whole() {
    let operator = Requester::operator(agent("main"));
    for text in ["agent:main:main", "agent:main:cron:x:run:1", "unknown", "global", "odd"] {
        assert_eq!(seen(&operator, &row("main", text)), (true, true), "{text}");
    }
    assert!(!seen(&operator, &row("work", "agent:work:main")).0);
    assert!(!seen(&operator, &row("main", "agent:main:dashboard:incognito-1")).0);
    let whole = Requester::of_agent(agent("work"));
    assert_eq!(seen(&whole, &row("work", "agent:work:x")), (true, true));
    assert!(!seen(&whole, &spawned_by("agent:work:main", row("main", "agent:main:acp:1"))).0);
}

/// Stored sessions by agent and key, and windows by id.
#[derive(Default)]
struct Stored {
    rows: BTreeMap<(AgentId, SessionKey), SessionFacts>,
    windows: BTreeMap<String, (AgentId, SessionKey)>,
}

impl Stored {
    fn add(&mut self, row: Row, window: &str) {
        let at = (agent(row.agent), key(row.key));
        self.rows.insert(at.clone(), row.facts);
        self.windows.insert(window.to_owned(), at);
    }
}

impl Catalogue for Stored {
    type Error = Infallible;

    fn with_lineage<T>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        with: impl FnOnce(Lineage<'_>) -> T,
    ) -> Result<Option<T>, Infallible> {
        let facts = self.rows.get(&(agent.clone(), key.clone()));
        Ok(facts.map(|facts| with(Lineage::of(facts))))
    }

    fn with_window(&self, id: &SessionId) -> Result<Vec<(AgentId, SessionKey)>, Infallible> {
        Ok(self.windows.get(id.as_str()).cloned().into_iter().collect())
    }
}

const CHILD_WINDOW: &str = "0f0e1d2c-3b4a-5968-7786-95a4b3c2d1e0";
const HIDDEN_WINDOW: &str = "1f0e1d2c-3b4a-5968-7786-95a4b3c2d1e0";
const NO_WINDOW: &str = "2f0e1d2c-3b4a-5968-7786-95a4b3c2d1e0";

fn stored() -> Stored {
    let mut stored = Stored::default();
    stored.add(row("main", R), "own");
    let mut child = spawned_by(R, row("main", "agent:main:subagent:1"));
    child.facts.archived = true;
    stored.add(child, CHILD_WINDOW);
    stored.add(spawned_by(R, row("work", "agent:work:acp:1")), "acp");
    stored.add(row("main", "agent:main:dashboard:1"), HIDDEN_WINDOW);
    stored.add(row("main", "agent:main:otter"), "odd");
    stored.add(row("work", "agent:work:main"), "work-main");
    stored
}

/// The key, or status and text of the refusal.
fn resolve(requester: &Requester, given: &str, stored: &Stored) -> Result<String, (&'static str, String)> {
    match requester.resolve(given, stored) {
        Ok(Ok(found)) => Ok(found.key.as_str().to_owned()),
        Ok(Err(refusal)) => Err((refusal.status(), refusal.to_string())),
        Err(never) => match never {},
    }
}

#[test]
fn v17_current_and_the_own_key_are_allowed_in_every_mode() {
    let stored = stored();
    for (column, requester) in columns() {
        for given in ["current", " CURRENT ", R, "webchat", "openclaw-tui", "Agent:MAIN:telegram:direct:BO"] {
            assert_eq!(resolve(&requester, given, &stored).as_deref(), Ok(R), "{given}, {column}");
        }
    }
}

#[test]
fn v29_a_visible_session_named_current_is_preferred_and_a_hidden_one_changes_nothing() {
    let mut stored = stored();
    stored.add(row("main", "agent:main:current"), "c");
    assert_eq!(resolve(&requester(), "current", &stored).as_deref(), Ok(R));
    let wide = requester().with_visibility(Visibility::Agent);
    assert_eq!(resolve(&wide, "current", &stored).as_deref(), Ok("agent:main:current"));
    stored.add(spawned_by(R, row("main", "agent:main:subagent:9")), "current");
    assert_eq!(resolve(&requester(), "current", &stored).as_deref(), Ok("agent:main:subagent:9"));
}

#[test]
fn v12_v19_v27_v31_children_are_known_by_their_stored_rows() {
    let stored = stored();
    for sandboxed in [false, true] {
        let mut requester = requester();
        if sandboxed {
            requester = requester.in_sandbox(SandboxClamp::Spawned);
        }
        for given in [CHILD_WINDOW, &CHILD_WINDOW.to_uppercase(), "agent:main:subagent:1"] {
            let found = resolve(&requester, given, &stored);
            // Session ids are compared as they are.
            if given.starts_with("0F") {
                assert!(found.is_err());
            } else {
                assert_eq!(found.as_deref(), Ok("agent:main:subagent:1"), "{given}");
            }
        }
        assert_eq!(resolve(&requester, "agent:work:acp:1", &stored).as_deref(), Ok("agent:work:acp:1"));
        assert_eq!(resolve(&requester, "acp", &stored).as_deref(), Ok("agent:work:acp:1"));
    }
}

#[test]
fn a_hidden_id_answers_exactly_as_one_that_does_not_exist() {
    let stored = stored();
    let swap = |text: String| text.replace(HIDDEN_WINDOW, NO_WINDOW);
    let hidden = resolve(&requester(), HIDDEN_WINDOW, &stored).unwrap_err();
    assert_eq!(hidden.0, "error");
    assert_eq!(swap(hidden.1), resolve(&requester(), NO_WINDOW, &stored).unwrap_err().1);
    // A free text that is a hidden session's key in short, or a foreign session's id.
    for given in ["otter", "beaver", "work-main"] {
        assert_eq!(resolve(&requester(), given, &stored).unwrap_err().0, "error", "{given}");
    }
    assert_eq!(
        resolve(&requester().with_visibility(Visibility::Agent), "otter", &stored).as_deref(),
        Ok("agent:main:otter")
    );
    let restricted = requester().in_sandbox(SandboxClamp::Spawned);
    let forbidden = resolve(&restricted, NO_WINDOW, &stored).unwrap_err();
    assert_eq!(forbidden.0, "forbidden");
    assert_eq!(resolve(&restricted, HIDDEN_WINDOW, &stored).unwrap_err(), forbidden);
}

#[test]
fn t9_a_refused_key_answers_the_same_whether_it_exists() {
    let (with, without) = (stored(), Stored::default());
    let hidden = ["agent:main:dashboard:1", "agent:work:main", "agent:nobody:main", "global", "cron:x", "unknown"];
    for (column, requester) in columns() {
        for sandboxed in [false, true] {
            let requester =
                if sandboxed { requester.clone().in_sandbox(SandboxClamp::Spawned) } else { requester.clone() };
            for given in hidden {
                assert_eq!(
                    resolve(&requester, given, &with),
                    resolve(&requester, given, &without),
                    "{given}, {column}"
                );
            }
        }
    }
    let (status, text) = resolve(&requester(), "agent:main:dashboard:1", &with).unwrap_err();
    assert!(status == "forbidden" && text.contains("tree"), "{text}");
    let own = requester().with_visibility(Visibility::SelfOnly);
    assert!(resolve(&own, "agent:main:subagent:1", &with).unwrap_err().1.contains("self"));
    let all = requester().with_visibility(Visibility::All);
    assert!(resolve(&all, "agent:work:main", &with).unwrap_err().1.contains("agent-to-agent access is off"));
    let Ok(Err(refusal)) = requester().resolve("agent:main:dashboard:incognito-1", &with) else { panic!() };
    assert!(matches!(refusal, Refusal::Forbidden(sessions_search::Denial::Incognito)));
}

#[test]
fn v7_v8_v9_other_agents_by_explicit_key() {
    let stored = stored();
    for (column, requester) in columns() {
        let expected = column == "all, pair ok";
        assert_eq!(resolve(&requester, "agent:work:main", &stored).is_ok(), expected, "{column}");
        assert_eq!(resolve(&requester, "work-main", &stored).is_ok(), expected, "{column}");
        // Look-alikes and paths are never a store's name.
        for given in ["agent:w\u{43e}rk:main", "agent:../work:main", "agent:work/../main:main"] {
            let found = resolve(&requester, given, &stored);
            assert!(found.is_err(), "{given}, {column}: {found:?}");
        }
    }
}
