//! What a requester gets from the stores: searches, history and lists through every step of an answer.

use sessions_search::{
    AgentToAgent, AskError, EmptyReason, HistoryRequest, ListRequest, Order, Requester, SandboxClamp, SearchAnswer,
    SearchRequest, Stores, Visibility,
};

use crate::random::Random;
use crate::world::{NOW, Session, World};

const R: &str = "agent:main:main";

fn me() -> Requester {
    Requester::new(R, None).unwrap()
}

fn everywhere() -> Requester {
    me().with_visibility(Visibility::All).with_agent_to_agent(AgentToAgent::on(vec!["*".into()]))
}

fn world() -> World {
    World::new(&[
        Session::new("main", R, "own", &["the otter sleeps", "a heron"]),
        Session::new("main", "agent:main:subagent:1", "child", &["an otter child"]).spawned_by(R),
        Session::new("main", "agent:main:subagent:old", "old", &["an otter of old"]).spawned_by(R).archived(),
        Session::new("main", "agent:main:subagent:1:subagent:2", "grandchild", &["otter otter otter"])
            .spawned_by("agent:main:subagent:1"),
        Session::new("main", "agent:main:dashboard:1", "other", &["otter otter otter otter"]),
        Session::new("main", "global", "glob", &["otter otter everywhere"]),
        Session::new("main", "agent:main:cron:x:run:1", "run", &["otter run"]),
        Session::new("codex", "agent:codex:acp:1", "acp", &["an otter by acp"]).spawned_by(R),
        Session::new("work", "agent:work:main", "work", &["otter otter work"]),
        Session::new("work", "global", "work-glob", &["otter global work"]),
    ])
}

fn search(stores: &Stores, who: &Requester, request: &SearchRequest) -> SearchAnswer {
    stores.search_as(who, request).unwrap().into_inner()
}

fn sessions_found(stores: &Stores, who: &Requester, request: &SearchRequest) -> Vec<String> {
    let mut ids: Vec<_> =
        search(stores, who, request).results.iter().map(|hit| hit.session_id.as_str().to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn otter(key: Option<&str>) -> SearchRequest {
    let mut request = SearchRequest::new("otter");
    request.limit = 25;
    request.session_keys = key.map(|key| vec![key.to_owned()]);
    request
}

#[test]
fn t8_t10_t14_t15_each_mode_searches_what_it_may_see() {
    let world = world();
    let stores = world.stores();
    let modes = |mode| me().with_visibility(mode);
    for (who, expected) in [
        (modes(Visibility::SelfOnly), vec!["own"]),
        (me(), vec!["acp", "child", "old", "own"]),
        (modes(Visibility::Agent), vec!["child", "glob", "grandchild", "old", "other", "own"]),
        (modes(Visibility::All), vec!["acp", "child", "glob", "grandchild", "old", "other", "own"]),
        (everywhere(), vec!["acp", "child", "glob", "grandchild", "old", "other", "own", "work"]),
        (everywhere().in_sandbox(SandboxClamp::Spawned), vec!["acp", "child", "old", "own"]),
        (
            everywhere().in_sandbox(SandboxClamp::All),
            vec!["acp", "child", "glob", "grandchild", "old", "other", "own", "work"],
        ),
    ] {
        assert_eq!(sessions_found(&stores, &who, &otter(None)), expected, "{who:?}");
        let answer = search(&stores, &who, &otter(None));
        assert_eq!((answer.coverage.sessions, answer.coverage.searched), (expected.len(), expected.len()));
        // The list meets the same sessions.
        let mut listed = Vec::new();
        for archived in [false, true] {
            let request = ListRequest { archived, ..ListRequest::default() };
            let list = stores.sessions_as(&who, &request).unwrap();
            listed.extend(list.sessions.iter().map(|row| row.session_id.as_str().to_owned()));
        }
        listed.sort();
        assert_eq!(listed, expected, "{who:?}");
    }
}

#[test]
fn t5_a_hidden_hit_that_scores_higher_does_not_displace_a_visible_one() {
    let world = world();
    let mut request = otter(None);
    request.limit = 1;
    let answer = search(&world.stores(), &me().with_visibility(Visibility::SelfOnly), &request);
    assert_eq!(answer.results[0].message_id.as_str(), "own-0");
    assert!(!answer.truncated);
}

#[test]
fn t28_hidden_matches_alone_are_no_match() {
    let world = world();
    let who = me().with_visibility(Visibility::SelfOnly);
    let answer = search(&world.stores(), &who, &SearchRequest::new("everywhere"));
    assert_eq!((answer.results.len(), answer.truncated, answer.indexing), (0, false, false));
    assert_eq!(answer.reason, Some(EmptyReason::NoMatch));
    assert_eq!(answer.warning, None);
}

#[test]
fn t12_t19_t21_t22_t23_t24_explicit_keys() {
    let world = world();
    let stores = world.stores();
    let ask = |who: &Requester, key: &str| match stores.search_as(who, &otter(Some(key))) {
        Ok(answer) => Ok(answer.results.iter().map(|hit| hit.session_id.as_str().to_owned()).collect::<Vec<_>>()),
        Err(AskError::Refused(refusal)) => Err(refusal.status()),
        Err(AskError::Failed(error)) => panic!("{error}"),
    };
    assert_eq!(ask(&everywhere(), "agent:work:main"), Ok(vec!["work".into()]));
    assert_eq!(ask(&me(), "agent:work:main"), Err("forbidden"));
    assert_eq!(ask(&me(), "agent:codex:acp:1"), Ok(vec!["acp".into()]));
    assert_eq!(ask(&me(), "acp"), Ok(vec!["acp".into()]));
    assert_eq!(ask(&me(), "agent:main:subagent:old"), Ok(vec!["old".into()]));
    assert_eq!(ask(&me(), "current"), Ok(vec!["own".into()]));
    // A run of a job by its key.
    let wide = me().with_visibility(Visibility::Agent);
    assert_eq!(ask(&wide, "agent:main:cron:x:run:1"), Ok(vec!["run".into()]));
    // A bare key is the requester's own agent's.
    assert_eq!(ask(&everywhere(), "global"), Ok(vec!["glob".into()]));
    assert_eq!(ask(&me(), "global"), Err("forbidden"));
    // Unknown, and hidden, alike.
    for id in ["0f0e1d2c-3b4a-5968-7786-95a4b3c2d1e0", "other", "work"] {
        assert_eq!(ask(&me(), id), Err("error"), "{id}");
        assert_eq!(ask(&me().in_sandbox(SandboxClamp::Spawned), id), Err("forbidden"), "{id}");
    }
    // Allowed, and not there.
    assert_eq!(ask(&wide, "agent:main:nothing"), Ok(vec![]));
    assert_eq!(ask(&everywhere(), "agent:nobody:main"), Ok(vec![]));
    let answer = search(&stores, &everywhere(), &otter(Some("agent:nobody:main")));
    assert_eq!(answer.reason, Some(EmptyReason::NoVisibleSessions));
    assert!(!world.root.path().join("agents/nobody").exists());
}

#[test]
fn t13_the_key_is_shown_as_main_to_whoever_asked_for_main() {
    let world = world();
    let stores = world.stores();
    for (asked, shown) in [(Some("main"), "main"), (Some(R), R), (None, R), (Some("current"), R)] {
        let who = me().with_visibility(Visibility::SelfOnly);
        let answer = search(&stores, &who, &otter(asked));
        assert_eq!(answer.results[0].session_key.as_str(), shown, "{asked:?}");
        let page = stores.history_as(&who, &HistoryRequest::new(asked.unwrap_or(R))).unwrap();
        assert_eq!(page.session_key, shown);
    }
}

#[test]
fn t17_t27_bounds_of_a_requesters_answer() {
    let texts: Vec<String> = (0..30).map(|n| format!("otter {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut giant = Session::new("main", R, "giant", &["a giant beaver", "a beaver"]);
    giant.messages[0].0 = "x".repeat(40_000);
    let world = World::new(&[Session::new("main", "agent:main:x", "x", &texts), giant]);
    let stores = world.stores();
    let wide = me().with_visibility(Visibility::Agent);
    let answer = search(&stores, &wide, &otter(None));
    assert_eq!((answer.results.len(), answer.truncated), (25, true));
    let mut request = otter(None);
    request.limit = 26;
    assert!(matches!(stores.search_as(&wide, &request), Err(AskError::Failed(_))));
    request = otter(None);
    request.explain = true;
    assert!(matches!(stores.search_as(&wide, &request), Err(AskError::Failed(_))));
    // The giant hit comes first, by score or by time, and ends the answer.
    let mut request = SearchRequest::new("giant beaver");
    let answer = search(&stores, &wide, &request);
    assert_eq!((answer.results.len(), answer.truncated), (0, true));
    assert_eq!(answer.reason, Some(EmptyReason::ResponseTooLarge));
    request.query = "beaver".into();
    request.order = Order::Recent;
    let answer = search(&stores, &wide, &request);
    assert_eq!((answer.results.len(), answer.truncated, answer.reason), (1, true, None));
}

#[test]
fn no_store_is_an_answer_and_makes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let stores = Stores::new(root.path(), sessions_search::OpenOptions::default());
    for who in [me(), everywhere(), Requester::operator(sessions_search::AgentId::default())] {
        let answer = search(&stores, &who, &otter(None));
        assert_eq!((answer.reason, answer.coverage.sessions), (Some(EmptyReason::NoStore), 0));
        assert_eq!(stores.sessions_as(&who, &ListRequest::default()).unwrap().count, 0);
        assert!(stores.history_as(&who, &HistoryRequest::new(R)).unwrap().messages.is_empty());
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn another_agents_store_that_is_held_elsewhere_changes_nothing() {
    let world = World::new(&[
        Session::new("main", R, "own", &["the otter sleeps"]),
        Session::new("work", "agent:work:main", "work", &["otter"]),
    ]);
    let alone = World::new(&[Session::new("main", R, "own", &["the otter sleeps"])]);
    let held = world.engine("work");
    let started = std::time::Instant::now();
    assert_eq!(search(&world.stores(), &me(), &otter(None)), search(&alone.stores(), &me(), &otter(None)));
    assert!(started.elapsed() < std::time::Duration::from_secs(4), "{:?}", started.elapsed());
    drop(held);
    // A broken one neither.
    std::fs::write(world.root.path().join("agents/work/transcripts.redb"), b"no database").unwrap();
    assert_eq!(search(&world.stores(), &me(), &otter(None)), search(&alone.stores(), &me(), &otter(None)));
}

#[test]
fn released_stores_open_again() {
    let world = world();
    let stores = world.stores();
    let before = search(&stores, &everywhere(), &otter(None));
    stores.release();
    // Another process could write now.
    world.add(&[Session::new("main", "agent:main:dashboard:1", "other", &["otter otter otter otter"])]);
    assert_eq!(search(&stores, &everywhere(), &otter(None)), before);
}

#[test]
fn visible_sets_follow_every_change() {
    let world = world();
    let engine = world.engine("main");
    let stores = Stores::with_open(world.root.path(), sessions_search::OpenOptions::default(), vec![engine]);
    let who = me().with_visibility(Visibility::Agent);
    let before = sessions_found(&stores, &who, &otter(None)).len();
    let append = |key: &str, id: &str| {
        let line = format!(r#"{{"type":"message","id":"{id}","message":{{"role":"user","content":"otter {id}"}}}}"#);
        let key = sessions_search::SessionKey::parse(key).unwrap();
        let request = sessions_search::AppendRequest::new(key, vec![line.into_bytes()]);
        let engine = stores.engine(who.agent()).unwrap().unwrap();
        engine.append(request, sessions_search::Timestamp::from_millis(NOW).unwrap()).unwrap();
    };
    append("agent:main:new", "n1");
    assert_eq!(sessions_found(&stores, &who, &otter(None)).len(), before + 1);
    append("agent:main:new", "n2");
    let hits = search(&stores, &who, &otter(Some("agent:main:new")));
    assert_eq!(hits.results.len(), 2);
    let engine = stores.engine(who.agent()).unwrap().unwrap();
    engine
        .delete_key(&sessions_search::SessionKey::parse("agent:main:new").unwrap(), sessions_search::Timestamp::UNKNOWN)
        .unwrap();
    assert_eq!(sessions_found(&stores, &who, &otter(None)).len(), before);
}

#[test]
fn h16_h17_history_is_judged_as_searches_are() {
    let world = world();
    let stores = world.stores();
    let status = |who: &Requester, key: &str| match stores.history_as(who, &HistoryRequest::new(key)) {
        Ok(page) => format!("{} messages", page.messages.len()),
        Err(AskError::Refused(refusal)) => refusal.status().to_owned(),
        Err(error) => panic!("{error}"),
    };
    let own = me().with_visibility(Visibility::SelfOnly);
    let sandboxed = me().in_sandbox(SandboxClamp::Spawned);
    for (who, key, expected) in [
        (&own, "current", "2 messages"),
        (&own, "agent:main:subagent:1", "forbidden"),
        (&me(), "agent:main:subagent:1", "1 messages"),
        (&me(), "child", "1 messages"),
        (&me(), "old", "1 messages"),
        (&me(), "acp", "1 messages"),
        (&me(), "other", "error"),
        (&me(), "nothing", "error"),
        (&me(), "agent:work:main", "forbidden"),
        (&sandboxed, "other", "forbidden"),
        (&sandboxed, "nothing", "forbidden"),
        (&sandboxed, "agent:main:dashboard:1", "forbidden"),
        (&sandboxed, "child", "1 messages"),
        (&everywhere(), "work", "1 messages"),
        (&everywhere(), "agent:main:nothing", "0 messages"),
    ] {
        assert_eq!(status(who, key), expected, "{key}");
    }
}

#[test]
fn h14_a_foreign_window_is_rejected_as_one_that_does_not_exist() {
    let world = world();
    let stores = world.stores();
    let mut request = HistoryRequest::new(R);
    request.message_id = Some("own-0".into());
    let mut errors = Vec::new();
    for window in ["other", "work", "acp", "child", "nothing"] {
        request.session_id = Some(window.into());
        let error = stores.history_as(&me(), &request).unwrap_err().to_string();
        errors.push(error.replace(window, "W"));
    }
    errors.dedup();
    assert_eq!(errors.len(), 1, "{errors:?}");
    request.session_id = Some("own".into());
    assert_eq!(stores.history_as(&me(), &request).unwrap().messages.len(), 2);
    // A message of another session is not in this one.
    request.session_id = None;
    request.message_id = Some("other-0".into());
    let page = stores.history_as(&me(), &request).unwrap();
    assert!(page.anchor_not_found() && page.messages.is_empty());
}

/// A pool of keys of every relation to R.
const HIDDEN_FROM_TREE: [(&str, &str, Option<&str>); 8] = [
    ("main", "agent:main:dashboard:h1", None),
    ("main", "agent:main:subagent:1:subagent:h2", Some("agent:main:subagent:1")),
    ("main", "agent:main:cron:x:run:h3", Some(R)),
    ("main", "unknown", None),
    ("main", "agent:main:current", None),
    ("work", "agent:work:main", None),
    ("work", "global", None),
    ("zoo", "agent:zoo:main", Some("agent:zoo:other")),
];

const WORDS: [&str; 6] = ["otter", "heron", "river", "map", "lake", "stone"];

fn text(random: &mut Random) -> String {
    (0..1 + random.below(6)).map(|_| WORDS[random.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
}

/// Everything of an answer but scores and the order they make.
fn without_scores(answer: &SearchAnswer) -> String {
    let mut hits: Vec<String> = answer
        .results
        .iter()
        .map(|hit| format!("{}/{}/{} {}", hit.session_key, hit.session_id, hit.message_id, hit.snippet))
        .collect();
    hits.sort();
    let SearchAnswer { indexing, warning, truncated, coverage, reason, .. } = answer;
    format!("{hits:?} {indexing} {warning:?} {truncated} {coverage:?} {reason:?}")
}

#[test]
fn hidden_sessions_messages_and_agents_change_nothing_but_scores() {
    let mut compared = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut visible = Vec::new();
        let relations: [(&str, &str, Option<&str>); 4] = [
            ("main", R, None),
            ("main", "agent:main:subagent:1", Some(R)),
            ("main", "agent:main:subagent:old", Some(R)),
            ("codex", "agent:codex:acp:1", Some(R)),
        ];
        for (n, (agent, key, parent)) in relations.into_iter().enumerate() {
            if n > 0 && random.below(3) == 0 {
                continue;
            }
            let texts: Vec<String> = (0..random.below(6)).map(|_| text(&mut random)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut session = Session::new(agent, key, &format!("v{n}"), &texts);
            if let Some(parent) = parent {
                session = session.spawned_by(parent);
            }
            visible.push(session);
        }
        let mut all = visible.clone();
        for (n, (agent, key, parent)) in HIDDEN_FROM_TREE.into_iter().enumerate() {
            let texts: Vec<String> = (0..1 + random.below(30)).map(|_| text(&mut random)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut session = Session::new(agent, key, &format!("h{n}"), &texts);
            if let Some(parent) = parent {
                session = session.spawned_by(parent);
            }
            all.insert(random.below(all.len() + 1), session);
        }
        let (with, without) = (World::new(&all), World::new(&visible));
        let (with, without) = (with.stores_kept(), without.stores_kept());
        let requesters = [me(), me().in_sandbox(SandboxClamp::Spawned), me().with_visibility(Visibility::SelfOnly)];
        for who in &requesters {
            for _ in 0..12 {
                let mut request = SearchRequest::new(text(&mut random));
                request.limit = 25;
                let (a, b) = (search(&with.1, who, &request), search(&without.1, who, &request));
                if !a.truncated {
                    assert_eq!(without_scores(&a), without_scores(&b), "{seed} {request:?}");
                }
                assert_eq!((a.truncated, a.coverage), (b.truncated, b.coverage));
                request.limit = 1 + random.below(4);
                request.order = Order::Recent;
                let (a, b) = (search(&with.1, who, &request), search(&without.1, who, &request));
                let ids =
                    |answer: &SearchAnswer| answer.results.iter().map(|hit| hit.message_id.clone()).collect::<Vec<_>>();
                assert_eq!(ids(&a), ids(&b), "{seed} {request:?}");
                assert_eq!(without_scores(&a), without_scores(&b), "{seed} {request:?}");
                compared += a.results.len();
            }
            // What names a hidden session, in every spelling, answers as if there were none.
            let ids = (0..HIDDEN_FROM_TREE.len()).map(|n| format!("h{n}"));
            let keys = HIDDEN_FROM_TREE.iter().map(|(_, key, _)| (*key).to_owned());
            let shorts = ["dashboard:h1", "current", "main", "otter", "AGENT:WORK:MAIN", " h1 "].map(str::to_owned);
            for name in ids.chain(keys).chain(shorts) {
                // A run of a job that R spawned may be asked for by its key.
                if name.contains("cron") || name == "h2" {
                    continue;
                }
                let mut request = SearchRequest::new("otter");
                request.session_keys = Some(vec![name.clone()]);
                let said = |stores: &Stores| match stores.search_as(who, &request) {
                    Ok(answer) => without_scores(&answer),
                    Err(error) => error.to_string(),
                };
                assert_eq!(said(&with.1), said(&without.1), "{name}");
                let read = |stores: &Stores| match stores.history_as(who, &HistoryRequest::new(&name)) {
                    Ok(page) => serde_json::to_string(&page).unwrap(),
                    Err(error) => error.to_string(),
                };
                assert_eq!(read(&with.1), read(&without.1), "{name}");
            }
            let list = |stores: &Stores| {
                serde_json::to_string(&stores.sessions_as(who, &ListRequest::default()).unwrap()).unwrap()
            };
            assert_eq!(list(&with.1), list(&without.1));
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn h18_every_hit_opens_again() {
    let world = world();
    let stores = world.stores();
    let mut opened = 0;
    for who in [me(), everywhere(), me().with_visibility(Visibility::Agent), me().in_sandbox(SandboxClamp::Spawned)] {
        for key in [None, Some("main"), Some("current")] {
            for hit in search(&stores, &who, &otter(key)).results {
                let mut request = HistoryRequest::new(hit.session_key.as_str());
                request.session_id = Some(hit.session_id.as_str().into());
                request.message_id = Some(hit.message_id.as_str().into());
                let page = stores.history_as(&who, &request).unwrap();
                assert!(!page.anchor_not_found(), "{hit:?}");
                assert!(page.messages.iter().any(|m| m.message_id.as_deref() == Some(hit.message_id.as_str())));
                opened += 1;
            }
        }
    }
    assert!(opened > 20, "{opened}");
}

#[test]
fn a_child_that_appears_later_in_another_agents_store_is_met() {
    let world = World::new(&[
        Session::new("main", R, "own", &["the otter sleeps"]),
        Session::new("work", "agent:work:main", "work", &["otter"]),
    ]);
    let stores = world.stores();
    for _ in 0..2 {
        assert_eq!(sessions_found(&stores, &me(), &otter(None)), ["own"]);
    }
    // The store without a child was let go, so that its owner can write.
    world.add(&[Session::new("work", "agent:work:acp:1", "acp", &["an otter child"]).spawned_by(R)]);
    assert_eq!(sessions_found(&stores, &me(), &otter(None)), ["acp", "own"]);
}

#[test]
fn h9_h10_h13_the_byte_cap_of_a_page() {
    let long = format!("otter {}", "x".repeat(3_900));
    let texts: Vec<&str> = (0..40).map(|_| long.as_str()).collect();
    let world = World::new(&[Session::new("main", R, "own", &texts)]);
    let stores = world.stores();
    let ids = |request: &HistoryRequest| {
        let page = stores.history_as(&me(), request).unwrap();
        assert!(page.bytes <= 81_920 && page.truncated && page.dropped_messages > 0, "{}", page.bytes);
        assert_eq!(page.bytes, serde_json::to_string(&page.messages).unwrap().len());
        page.messages.iter().map(|message| message.message_id.clone().unwrap()).collect::<Vec<_>>()
    };
    let newest = ids(&HistoryRequest::new(R));
    assert_eq!((newest.len(), newest.last().unwrap().as_str()), (20, "own-39"));
    let mut around = HistoryRequest::new(R);
    around.message_id = Some("own-5".into());
    let shown = ids(&around);
    assert!(shown.contains(&"own-5".to_owned()) && shown.contains(&"own-4".to_owned()), "{shown:?}");
    // Paging back meets every message once, although pages are cut.
    let mut paging = HistoryRequest::new(R);
    let mut all = Vec::new();
    paging.offset = Some(0);
    while let Some(offset) = paging.offset {
        let page = stores.history_as(&me(), &paging).unwrap();
        assert_eq!((page.offset, page.total_messages), (Some(offset), Some(40)));
        all.splice(0..0, page.messages.iter().map(|message| message.message_id.clone().unwrap()));
        paging.offset = page.next_offset;
        assert_eq!(page.has_more, Some(page.next_offset.is_some()));
    }
    assert_eq!(all, (0..40).map(|n| format!("own-{n}")).collect::<Vec<_>>());
}

#[test]
fn windows_of_a_child_stay_its_parents() {
    let world = World::new(&[
        Session::new("main", R, "own", &["the otter sleeps"]),
        Session::new("main", "agent:main:subagent:1", "before", &["an otter before the reset"]).spawned_by(R),
        Session::new("main", "agent:main:subagent:1", "after", &["an otter after the reset"]),
    ]);
    assert_eq!(sessions_found(&world.stores(), &me(), &otter(None)), ["after", "before", "own"]);
}
