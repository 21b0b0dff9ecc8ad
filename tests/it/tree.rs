//! The active branch: worked examples, scenarios, and two properties over random rows.
//!
//! Examples are written as in contract §3.6: `U a1<-∅` a user message with parent null, `A a2<-a1` an assistant's,
//! `U a1` one without `parentId`, `U` one without an id; `leaf L tgt=x app=y side`; any other word is a type.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use proptest::prelude::*;
use sessions_search::__internal::{
    Event, Forward, Head, MessageId, Parent, Reset, Resolution, TreeNode, TreeRow, TreeScan, history_start,
};

/// One row of the notation as a line of a transcript.
fn line(row: &str, previous: Option<&str>) -> String {
    let mut words = row.split_whitespace();
    let (kind, mut members) = match words.next().unwrap_or_default() {
        "U" => ("message", vec![r#""message":{"role":"user","content":"words"}"#.to_owned()]),
        "A" => ("message", vec![r#""message":{"role":"assistant","content":"words"}"#.to_owned()]),
        "T" => ("message", vec![r#""message":{"role":"toolResult","content":"words"}"#.to_owned()]),
        "header" => ("session", vec![r#""id":"the-session""#.to_owned()]),
        kind => (kind, Vec::new()),
    };
    let value = |text: &str| match text {
        "∅" => "null".to_owned(),
        "7" => "7".to_owned(),
        id => format!("\"{id}\""),
    };
    let mut linked = false;
    for word in words {
        members.push(match word.split_once('=') {
            Some(("tgt", target)) => format!("\"targetId\":{}", value(target)),
            Some(("app", parent)) => format!("\"appendParentId\":{}", value(parent)),
            Some(("kept", row)) => format!("\"firstKeptEntryId\":{}", value(row)),
            _ if word == "side" => "\"appendMode\":\"side\"".to_owned(),
            _ => match word.split_once("<-") {
                Some((id, parent)) => {
                    linked = true;
                    format!("\"id\":{},\"parentId\":{}", value(id), value(parent))
                }
                None => format!("\"id\":{}", value(word)),
            },
        });
    }
    // The notation leaves out the parent of a control; a control must have one.
    if kind == "leaf" && !linked {
        members.push(format!("\"parentId\":{}", value(previous.unwrap_or("∅"))));
    }
    format!(r#"{{"type":"{kind}",{}}}"#, members.join(","))
}

struct Transcript {
    events: Vec<Event>,
    resolution: Resolution,
}

fn transcript(rows: &str) -> Transcript {
    let mut events: Vec<Event> = Vec::new();
    let mut scan = TreeScan::new();
    for row in rows.split(';').map(str::trim) {
        let previous = events.last().and_then(|event| event.id.clone());
        let line = line(row, previous.as_ref().map(MessageId::as_str)).replace(",}", "}");
        let event = Event::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{row}: {line}: {error}"));
        scan.push(events.len() as u64, &TreeRow::of(&event, None));
        events.push(event);
    }
    Transcript { events, resolution: scan.resolve() }
}

impl Transcript {
    /// The ids of the searchable messages on the path.
    fn active(&self) -> String {
        let on_path = self.resolution.path.iter().filter_map(|seq| self.events[*seq as usize].searchable());
        on_path.map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn ends(&self) -> String {
        let name = |id: Option<&MessageId>| id.map_or("null".to_owned(), |id| id.as_str().to_owned());
        format!("{}/{}", name(self.resolution.head.leaf()), name(self.resolution.head.cursor()))
    }
}

fn check(name: &str, rows: &str, active: &str, ends: &str) {
    let found = transcript(rows);
    assert_eq!(found.active(), active, "{name}: {rows}");
    assert_eq!(found.ends(), ends, "{name}: {rows}");
}

/// Contract §3.6 (29 under the rules of §3.8, D16) and §3.8.
#[test]
fn worked_examples() {
    let rows: &[(&str, &str, &str, &str)] = &[
        ("1", "header; U a1<-∅; A a2<-a1; U a3<-a2", "a1 a2 a3", "a3/a3"),
        ("2", "U b1; A b2; U b3", "b1 b2 b3", "b3/b3"),
        ("3", "U; A", "", "null/null"),
        ("4", "U c1<-∅; A c2<-c1; leaf L<-c2 tgt=c1", "c1", "c1/c1"),
        ("5", "U c1<-∅; A c2<-c1; leaf L<-c2 tgt=c1; A c3<-c1", "c1 c3", "c3/c3"),
        ("6", "U d1<-∅; A d2<-d1; leaf L tgt=d1; A d3<-L", "d1 d3", "d3/d3"),
        ("7", "U e1<-∅; A e2<-e1; A e3<-e1", "e1 e3", "e3/e3"),
        ("8", "U f1<-∅; A f2<-f1; leaf L tgt=∅", "", "null/null"),
        ("9", "U f1<-∅; A f2<-f1; leaf L tgt=∅; U f3<-∅", "f3", "f3/f3"),
        ("10", "U g1<-∅; leaf L<-g1 tgt=ghost; A g2<-L", "g1 g2", "g2/g2"),
        ("11", "U h1<-∅; A h2<-h1; leaf L<-h2; U h3<-L", "h1 h2 h3", "h3/h3"),
        ("12", "U i1<-∅; A i2<-i1; A s1<-i1 side; U i3<-i2", "i1 i2 i3", "i3/i3"),
        ("13", "U i1<-∅; A i2<-i1; A s1<-i1 side; U i3<-s1", "i1 i2 i3", "i3/i3"),
        ("14", "U j1<-∅; U j2<-j1; leaf L tgt=j1 app=j2 side; U j3<-j2 side", "j1", "j1/j3"),
        ("15", "U j1<-∅; U j2<-j1; leaf L tgt=j1 app=j2 side; U j3<-j2", "j1 j3", "j3/j3"),
        ("16", "U k1<-∅; A k2<-k1; U k3<-vanished", "k1 k2 k3", "k3/k3"),
        ("17", "U k1<-vanished; A k2<-k1", "k1 k2", "k2/k2"),
        ("18", "U m1<-∅; opq x<-m1; A m2<-x", "m1 m2", "m2/m2"),
        ("19", "U m1<-∅; opq x; A m2<-m1", "m1 m2", "m2/m2"),
        ("20", "U n1<-∅; A n2<-n1; compaction n3<-n2; U n4<-n3", "n1 n2 n4", "n4/n4"),
        ("21", "U o1; A o2; U o3<-∅", "o3", "o3/o3"),
        ("22", "U o1<-∅; A o2<-o1; U o3", "o1 o2 o3", "o3/o3"),
        ("23", "U p1<-∅; leaf L1 tgt=p1; leaf L2 tgt=L1; A p2", "p1 p2", "p2/p2"),
        ("24", "U q1<-q2; A q2<-q1", "q1 q2", "q2/q2"),
        ("25", "U r1<-∅; A r2<-r1; leaf L tgt=r1 app=∅; U r3<-∅", "r1 r3", "r3/r3"),
        ("26", "U v1<-∅; leaf B tgt=ghost; leaf L tgt=B; A v2<-v1", "v1 v2", "v2/v2"),
        ("27", "U w1<-∅; A w2<-w1; branch_summary w3<-w1; U w4<-w3", "w1 w4", "w4/w4"),
        ("28", "header; custom", "", "null/null"),
        ("29", "U a1<-∅; A a2<-a1; reset r<-a2; U a3<-r", "a1 a2 a3", "a3/a3"),
        ("3.8 rewind", "U a1<-∅; A a2<-a1; reset r<-a2; U a3<-r; leaf L tgt=a1", "a1 a2 a3", "a3/a3"),
        ("3.8 rewind to nothing", "U a1<-∅; A a2<-a1; reset r<-a2; U a3<-r; leaf L tgt=∅", "a1 a2 a3", "a3/a3"),
        ("3.8 new root", "U a1<-∅; reset r<-a1; U a2<-∅", "a1 a2", "a2/a2"),
        ("3.8 old parent", "U a1<-∅; A a2<-a1; reset r<-a2; U a3<-r; U a4<-a1", "a1 a2 a3 a4", "a4/a4"),
        (
            "3.8 rewind after it",
            "U a1<-∅; reset r<-a1; U a2<-r; A a3<-a2; leaf L tgt=a2; A a4<-a2",
            "a1 a2 a4",
            "a4/a4",
        ),
        ("3.8 side append", "U a1<-∅; reset r<-a1; U a2<-r; A s<-a1 side; U a3<-s", "a1 a2 a3", "a3/a3"),
        ("3.8 two resets", "U a1<-∅; reset r<-a1; U a2<-r; reset q<-a2; U a3<-r", "a1 a2 a3", "a3/a3"),
    ];
    for (name, rows, active, ends) in rows {
        check(name, rows, active, ends);
    }
}

#[test]
fn b1_a_valid_control_ends_the_path_at_its_target() {
    check("B1", "U a<-∅; A b<-a; U c<-b; leaf L tgt=b", "a b", "b/b");
}

#[test]
fn b2_a_control_to_null_empties_the_branch() {
    let found = transcript("U a<-∅; leaf L tgt=∅");
    assert_eq!(found.resolution.path, Vec::<u64>::new());
    assert!(!found.resolution.head.is_flat());
}

#[test]
fn b3_a_malformed_control_is_dropped() {
    for control in ["leaf L", "leaf L tgt=7", "leaf L tgt=a app=7", "leaf L<-7 tgt=a"] {
        check("B3", &format!("U a<-∅; A b<-a; {control}"), "a b", "b/b");
    }
}

#[test]
fn b4_a_control_to_an_unknown_id_is_ignored_and_transparent() {
    check("B4", "U a<-∅; A b<-a; leaf L<-a tgt=ghost", "a b", "b/b");
    check("B4", "U a<-∅; A b<-a; leaf L<-a tgt=ghost; U c<-L", "a c", "c/c");
    check("B4", "U a<-∅; A b<-a; leaf L<-a tgt=a app=ghost; U c<-b", "a b c", "c/c");
}

#[test]
fn b5_the_last_valid_control_wins() {
    check("B5", "U a<-∅; A b<-a; U c<-b; leaf L tgt=a; leaf M tgt=b; leaf N tgt=ghost", "a b", "b/b");
}

#[test]
fn b6_append_parent_and_target_are_kept_apart() {
    check("B6", "U a<-∅; A b<-a; leaf L tgt=a app=b", "a", "a/b");
}

#[test]
fn b7_opaque_rows_after_a_control_do_not_move_the_leaf() {
    check("B7", "U a<-∅; A b<-a; leaf L tgt=a; opq x<-a; opq y<-x", "a", "a/y");
}

#[test]
fn b8_a_null_parent_under_a_null_cursor_attaches_to_the_leaf() {
    check("B8", "U a<-∅; A b<-a; leaf L tgt=b app=∅; U c<-∅", "a b c", "c/c");
}

#[test]
fn b8b_a_null_parent_after_flat_rows_is_a_new_root() {
    check("B8b", "U a; A b; U c<-∅; A d<-c", "c d", "d/d");
}

#[test]
fn b9_a_side_append_is_not_on_the_path() {
    check("B9", "U a<-∅; A s<-a side", "a", "a/s");
}

#[test]
fn b10_a_normal_append_after_side_rows_goes_on() {
    check("B10", "U a<-∅; A s<-a side; A t<-s side; U b<-t", "a b", "b/b");
    check("B10", "U a<-∅; A s<-a side; A t<-s side; U b<-a", "a b", "b/b");
}

#[test]
fn b11_a_child_of_a_control_hangs_below_its_target() {
    check("B11", "U a<-∅; A b<-a; leaf L tgt=a; leaf M tgt=b; U c<-L", "a c", "c/c");
}

#[test]
fn b12_parentless_rows_after_markers_join_the_leaf() {
    check("B12", "U a<-∅; A b<-a; leaf L tgt=b; leaf M tgt=a; leaf N tgt=M; U c; A d", "a c d", "d/d");
}

#[test]
fn b13_a_legacy_file_keeps_file_order() {
    check("B13", "header; U a; A b; U c; A d", "a b c d", "d/d");
}

#[test]
fn b14_a_linked_row_keeps_the_legacy_prefix() {
    check("B14", "U a; A b; U c<-b; A d", "a b c d", "d/d");
}

#[test]
fn b15_a_missing_parent_leaves_the_reachable_suffix() {
    let found = transcript("U b<-gone; A c<-b");
    assert_eq!(found.active(), "b c");
    assert_eq!(found.resolution.head.awaited().map(MessageId::as_str), Some("gone"));
    check("B15", "U a<-∅; A s<-gone side; leaf L tgt=s; U c<-s", "s c", "c/c");
}

#[test]
fn b16_leaf_and_cursor_keep_their_own_ancestry() {
    let rows = "U a<-∅; A b<-a; U x<-a side; U y<-x side; leaf L tgt=b app=y";
    check("B16", rows, "a b", "b/y");
    check("B16", &format!("{rows}; A z<-y side; leaf M tgt=z"), "a x y z", "z/z");
    check("B16", &format!("{rows}; U c<-y"), "a b c", "c/c");
}

#[test]
fn b17_a_stale_parent_attaches_to_the_leaf() {
    check("B17", "U a<-∅; A b<-a; leaf L tgt=a app=b; U c<-b", "a c", "c/c");
}

#[test]
fn b18_a_side_row_made_the_leaf_shows_its_chain() {
    check("B18", "U a<-∅; A b<-a; A s<-a side; U t<-s side; leaf L tgt=t", "a s t", "t/t");
}

#[test]
fn b19_dangling_references_are_harmless() {
    check("B19", "leaf L<-gone tgt=gone; opq x<-gone; U a<-x; reset r<-gone2 kept=gone3", "a", "r/r");
}

#[test]
fn b20_a_cycle_ends_in_the_flat_fallback_or_in_nothing() {
    let found = transcript("U a<-c; A b<-a; U c<-b; U d<-d");
    assert!(found.resolution.head.is_cyclic() && found.resolution.head.is_flat());
    assert_eq!(found.active(), "a b c d");
    let found = transcript("U a<-b; leaf L tgt=a; A b<-a");
    assert!(found.resolution.head.is_cyclic() && !found.resolution.head.is_flat());
    assert_eq!(found.active(), "");
    check("B20", "U a<-a", "a", "a/a");
}

/// B21 gave way to D22: the first row of an id is the one that counts.
#[test]
fn of_two_rows_with_one_id_the_first_counts() {
    check("D22", "U a<-∅; A b<-a; U c<-b; A b<-∅", "a b c", "c/c");
}

#[test]
fn b22_a_reset_hides_nothing_from_search_and_begins_plain_history() {
    let history = |rows: &str| {
        let found = transcript(rows);
        let rows: Vec<TreeRow> =
            found.resolution.path.iter().map(|seq| TreeRow::of(&found.events[*seq as usize], None)).collect();
        assert_eq!(history_start(&rows), found.resolution.history_start);
        let visible = &found.resolution.path[found.resolution.history_start..];
        visible
            .iter()
            .filter_map(|seq| found.events[*seq as usize].id.as_ref().map(MessageId::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    };
    check("B22", "U a<-∅; A b<-a; reset r<-b; U c<-r", "a b c", "c/c");
    assert_eq!(history("U a<-∅; A b<-a; reset r<-b; U c<-r"), "r c");
    assert_eq!(history("U a<-∅; A b<-a; reset r<-b kept=b; U c<-r"), "b r c");
    assert_eq!(history("U a<-∅; A b<-a; reset r<-b kept=gone; U c<-r"), "r c");
    assert_eq!(history("U a<-∅; A x<-a; leaf L tgt=a; reset r<-a kept=x; U c<-r"), "r c", "x is off the path");
    assert_eq!(history("U a<-∅; reset r<-a; U c<-r; reset q<-c kept=a; U d<-q"), "a r c q d");
    assert_eq!(history("U a<-∅; A b<-a"), "a b");
}

#[test]
fn b24_a_compaction_hides_nothing() {
    check("B24", "U a<-∅; A b<-a; compaction k<-b; U c<-k", "a b c", "c/c");
}

#[test]
fn rows_that_cannot_be_linked_are_no_part_of_the_tree() {
    check("unusable parent", "U a<-∅; A b<-7; U c<-b", "a c", "c/c");
    check("no id", "U a<-∅; A; U c<-a", "a c", "c/c");
    check("the header is no parent", "header; U a<-the-session; A b<-a", "a b", "b/b");
    check("opaque side rows", "U a<-∅; opq x<-a side; U b<-x", "a b", "b/b");
}

#[test]
fn a_stale_parent_of_a_message_is_rebased_onto_the_cursor() {
    let rebased = |before: &str, row: &str| {
        let before = transcript(before);
        let known: HashSet<&MessageId> = before.events.iter().filter_map(|event| event.id.as_ref()).collect();
        let event = Event::parse(line(row, None).as_bytes()).unwrap();
        let parent = before
            .resolution
            .head
            .rebased_parent(&TreeRow::of(&event, None), |id| Ok::<_, Infallible>(known.contains(id)))
            .unwrap();
        parent.map(|parent| parent.id().map_or("∅".to_owned(), |id| id.as_str().to_owned()))
    };
    let chain = "U a<-∅; A b<-a; U c<-b";
    assert_eq!(rebased(chain, "A d<-b").as_deref(), Some("c"));
    assert_eq!(rebased(chain, "T d<-a").as_deref(), Some("c"));
    assert_eq!(rebased(chain, "A d<-c"), None, "the leaf");
    assert_eq!(rebased(chain, "A d<-gone"), None, "not stored: the tree adopts it");
    assert_eq!(rebased(chain, "A d<-∅"), None, "a new root is meant");
    assert_eq!(rebased(chain, "A d"), None);
    assert_eq!(rebased(chain, "A d<-b side"), None);
    assert_eq!(rebased(chain, "custom d<-b"), None);
    assert_eq!(rebased("U a<-∅; opq x<-a", "A d<-x"), None, "the cursor");
    assert_eq!(rebased("U a<-∅; opq x<-a", "A d<-a"), None, "the leaf");
    assert_eq!(rebased("U a<-∅; A b<-a; opq x<-b", "A d<-a").as_deref(), Some("x"));
    assert_eq!(rebased("U a<-∅; leaf L tgt=∅", "A d<-a").as_deref(), Some("∅"));
}

#[test]
fn rows_that_go_on_from_the_end_need_no_second_look() {
    let places = |before: &str, row: &str| {
        let before = transcript(before);
        let known: HashSet<&MessageId> = before.events.iter().filter_map(|event| event.id.as_ref()).collect();
        let event = Event::parse(line(row, None).as_bytes()).unwrap();
        let row = TreeRow::of(&event, None);
        match before.resolution.head.forward(&row, |id| Ok::<_, Infallible>(known.contains(id))).unwrap() {
            Forward::OnPath(_) => "on",
            Forward::OffPath(_) => "off",
            Forward::Resolve => "resolve",
        }
    };
    for (before, row, expected) in [
        ("header", "U a<-∅", "on"),
        ("header", "U a", "on"),
        ("U a<-∅", "A b<-a", "on"),
        ("U a<-∅", "A b", "on"),
        ("U a<-∅", "A b<-gone", "on"),
        ("U a<-∅", "A b<-∅", "resolve"),
        ("U a<-∅; reset r<-a", "A b<-∅", "on"),
        ("U a<-∅; A b<-a", "U c<-a", "resolve"),
        ("U a<-∅; opq x<-a", "U c<-x", "on"),
        ("U a<-∅; A s<-a side", "U c<-s", "on"),
        ("U a<-∅", "A s<-a side", "off"),
        ("U a<-∅", "opq x<-a", "off"),
        ("U a<-∅", "opq x", "off"),
        ("U a<-∅", "leaf L<-a tgt=∅", "resolve"),
        ("U a<-∅; A b<-a", "leaf L<-b tgt=a", "resolve"),
        ("U a<-∅; A b<-a", "leaf L<-b tgt=b", "off"),
        ("U a<-∅; A b<-a", "leaf L<-b tgt=gone", "off"),
        ("U b<-gone", "opq gone<-∅", "resolve"),
        ("A s<-∅ side", "U a<-∅", "resolve"),
        ("A s<-∅ side", "A t<-s side", "on"),
        ("U a<-b; A b<-a", "U c<-b", "resolve"),
        ("U a<-b; A b<-a", "opq x", "resolve"),
    ] {
        assert_eq!(places(before, row), expected, "{before} + {row}");
    }
}

/// What happens to a parent, a target or a cursor in a random row.
#[derive(Debug, Clone)]
enum Link {
    Absent,
    Root,
    To(usize),
}

fn id(number: usize) -> MessageId {
    MessageId::parse(&format!("n{number}")).expect("a short id")
}

fn parent(link: &Link) -> Parent {
    match link {
        Link::Absent | Link::Root => Parent::Root,
        Link::To(number) => Parent::Below(id(*number)),
    }
}

const MAX_ROWS: usize = 12;

fn link() -> impl Strategy<Value = Link> {
    prop_oneof![
        1 => Just(Link::Absent),
        2 => Just(Link::Root),
        // One id that no row has.
        9 => (0..=MAX_ROWS).prop_map(Link::To),
    ]
}

/// Random rows, each id once, in an order that makes many links point to rows that come later.
fn rows() -> impl Strategy<Value = Vec<TreeRow>> {
    let row = (0..20_u8, link(), link(), prop_oneof![3 => Just(None), 1 => link().prop_map(Some)], any::<bool>());
    let order = Just((0..MAX_ROWS).collect::<Vec<_>>()).prop_shuffle();
    (proptest::collection::vec(row, 0..=MAX_ROWS), order, any::<bool>()).prop_map(|(rows, order, mostly_ordered)| {
        let in_place = |at: usize| if mostly_ordered { at } else { order[at] };
        rows.into_iter()
            .enumerate()
            .map(|(at, (kind, up, target, append, flag))| {
                let id = id(in_place(at));
                let stated = || (!matches!(up, Link::Absent)).then(|| parent(&up));
                let entry = |side: bool, reset: Option<Reset>| TreeNode::Entry {
                    id: id.clone(),
                    parent: stated(),
                    side,
                    reset,
                };
                let node = match kind {
                    0..=8 => entry(false, None),
                    9..=10 => entry(true, None),
                    11..=12 => entry(flag && kind == 12, Some(Reset { first_kept: parent(&target).id().cloned() })),
                    13..=16 => TreeNode::Control {
                        id: id.clone(),
                        parent: parent(&up),
                        append_parent: append.as_ref().map_or_else(|| parent(&target), parent),
                        target: parent(&target),
                    },
                    17..=18 => TreeNode::Opaque { id: id.clone(), parent: parent(&up) },
                    _ => TreeNode::Absent,
                };
                let is_message = match node {
                    TreeNode::Entry { reset: None, .. } => kind % 4 != 0,
                    TreeNode::Absent => flag,
                    _ => false,
                };
                TreeRow { is_message, node }
            })
            .collect()
    })
}

/// The rules of contract §3, written down as they stand: slow, and too simple to be wrong.
#[derive(Default)]
pub(crate) struct Naive {
    nodes: HashMap<MessageId, NaiveNode>,
    pub(crate) leaf: Option<MessageId>,
    pub(crate) cursor: Option<MessageId>,
    last_reset: Option<MessageId>,
    control_seen: bool,
}

struct NaiveNode {
    seq: u64,
    parent: Option<MessageId>,
    control: bool,
    invalid: bool,
}

impl Naive {
    /// The active path, and the state after the last row.
    pub(crate) fn path(rows: &[TreeRow]) -> (Vec<u64>, Self) {
        let mut scan = Self::default();
        for (seq, row) in rows.iter().enumerate() {
            scan.push(seq as u64, row);
        }
        let (mut path, mut seen, mut at) = (Vec::new(), HashSet::new(), scan.leaf.clone());
        while let Some(id) = at {
            if !seen.insert(id.clone()) {
                path.clear();
                break;
            }
            let Some(node) = scan.nodes.get(&id) else { break };
            if !node.control {
                path.insert(0, node.seq);
            }
            at = node.parent.clone();
        }
        if path.is_empty() && !scan.control_seen {
            path = (0..rows.len() as u64).collect();
        }
        (path, scan)
    }

    fn push(&mut self, seq: u64, row: &TreeRow) {
        let after_reset = self.last_reset.clone();
        match &row.node {
            TreeNode::Absent => {}
            TreeNode::Opaque { id, parent } => {
                self.insert(id, seq, parent.id().cloned(), false, false);
                self.cursor = Some(id.clone());
            }
            TreeNode::Control { id, parent, target, append_parent } => {
                let (mut target, mut append_parent) = (target.id().cloned(), append_parent.id().cloned());
                if after_reset.is_some_and(|reset| !self.contains(target.clone(), &reset)) && self.leaf.is_some() {
                    (target, append_parent) = (self.leaf.clone(), self.leaf.clone());
                }
                let bad = |id: &Option<MessageId>| {
                    id.as_ref().is_some_and(|id| self.nodes.get(id).is_none_or(|node| node.invalid))
                };
                if bad(&target) || bad(&append_parent) {
                    self.insert(id, seq, parent.id().cloned(), true, true);
                    return;
                }
                self.insert(id, seq, target.clone(), true, false);
                self.leaf = target;
                self.cursor = append_parent;
                self.control_seen = true;
            }
            TreeNode::Entry { id, parent, side, reset } => {
                let stated = parent.as_ref().map(|parent| parent.id().cloned());
                let raw = stated.clone().unwrap_or_else(|| self.leaf.clone());
                let unknown = raw.as_ref().is_some_and(|id| !self.nodes.contains_key(id));
                let leaves_reset = after_reset.is_some_and(|reset| !self.contains(raw.clone(), &reset));
                let is_stale = stated.is_some() && unknown && self.leaf.is_some();
                let is_raw_cursor = stated.is_some() && raw == self.cursor && self.leaf != self.cursor;
                let adopted = !side && (leaves_reset || is_stale || is_raw_cursor);
                let mut up = if adopted { self.leaf.clone() } else { raw };
                let mut seen = HashSet::new();
                while let Some(control) = up.clone().filter(|id| self.nodes.get(id).is_some_and(|node| node.control)) {
                    if !seen.insert(control.clone()) {
                        break;
                    }
                    up = self.nodes[&control].parent.clone();
                }
                self.insert(id, seq, up, false, false);
                self.cursor = Some(id.clone());
                if !side {
                    self.leaf = Some(id.clone());
                }
                if reset.is_some() {
                    self.last_reset = Some(id.clone());
                }
            }
        }
    }

    fn insert(&mut self, id: &MessageId, seq: u64, parent: Option<MessageId>, control: bool, invalid: bool) {
        self.nodes.insert(id.clone(), NaiveNode { seq, parent, control, invalid });
    }

    fn contains(&self, start: Option<MessageId>, reset: &MessageId) -> bool {
        let (mut at, mut seen) = (start, HashSet::new());
        while let Some(id) = at.filter(|id| seen.insert(id.clone())) {
            if &id == reset {
                return true;
            }
            at = self.nodes.get(&id).and_then(|node| node.parent.clone());
        }
        false
    }
}

fn scanned(rows: &[TreeRow]) -> Resolution {
    let mut scan = TreeScan::new();
    for (seq, row) in rows.iter().enumerate() {
        scan.push(seq as u64, row);
    }
    scan.resolve()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_scan_gives_what_the_rules_say(rows in rows()) {
        let (path, naive) = Naive::path(&rows);
        let found = scanned(&rows);
        prop_assert_eq!(&found.path, &path);
        prop_assert_eq!(found.head.leaf(), naive.leaf.as_ref());
        prop_assert_eq!(found.head.cursor(), naive.cursor.as_ref());
        if !found.head.is_flat() {
            let on_path: Vec<&TreeRow> = path.iter().map(|seq| &rows[*seq as usize]).collect();
            prop_assert_eq!(history_start(on_path), found.history_start);
        }
    }

    #[test]
    fn steps_forward_end_where_a_full_scan_does(rows in rows()) {
        let messages = |path: &[u64]| path.iter().copied().filter(|seq| rows[*seq as usize].is_message).collect::<Vec<_>>();
        let (mut head, mut path, mut known) = (Head::default(), Vec::new(), HashSet::new());
        for (seq, row) in rows.iter().enumerate() {
            let expected = scanned(&rows[..=seq]);
            match head.forward(row, |id| Ok::<_, Infallible>(known.contains(id))).unwrap() {
                Forward::OnPath(next) => {
                    path.push(seq as u64);
                    head = next;
                }
                Forward::OffPath(next) => head = next,
                Forward::Resolve => {
                    path = expected.path.clone();
                    head = expected.head.clone();
                }
            }
            prop_assert_eq!(&head, &expected.head, "after row {}", seq);
            prop_assert_eq!(messages(&path), messages(&expected.path), "after row {}", seq);
            known.extend(row.id().cloned());
        }
    }
}

#[test]
fn a_head_survives_being_stored() {
    let head = transcript("U a<-gone; reset r<-a; opq x<-r; leaf L tgt=r").resolution.head;
    let stored = serde_json::to_string(&head).unwrap();
    assert_eq!(serde_json::from_str::<Head>(&stored).unwrap(), head);
}

/// Long chains of each kind, made to provoke a walk per row.
#[test]
fn a_long_transcript_takes_linear_time() {
    const ROWS: usize = 30_000;
    let entry = |number: usize, parent: Parent, side: bool| TreeNode::Entry {
        id: id(number),
        parent: Some(parent),
        side,
        reset: None,
    };
    let below = |number: usize| Parent::Below(id(number));
    let mut sessions: Vec<Vec<TreeNode>> = Vec::new();
    // A plain chain.
    sessions.push((0..ROWS).map(|n| entry(n, if n == 0 { Parent::Root } else { below(n - 1) }, false)).collect());
    // A reset at the root, then a chain whose every row asks whether it is below it.
    sessions.push(
        (0..ROWS)
            .map(|n| match n {
                0 => TreeNode::Entry { id: id(0), parent: None, side: false, reset: Some(Reset { first_kept: None }) },
                n => entry(n, below(n - 1), false),
            })
            .collect(),
    );
    // Invalid controls, each below the one before, and entries that look through all of them.
    sessions.push(
        (0..ROWS)
            .map(|n| match n % 2 {
                0 => TreeNode::Control {
                    id: id(n),
                    parent: if n == 0 { Parent::Root } else { below(n - 2) },
                    target: below(ROWS),
                    append_parent: below(ROWS),
                },
                _ => entry(n, below(n - 1), true),
            })
            .collect(),
    );
    // A side chain before a reset, and rows after it that name its end: each must be found to be outside.
    sessions.push(
        (0..ROWS)
            .map(|n| match n {
                0 => entry(0, Parent::Root, false),
                n if n < ROWS / 2 => entry(n, below(n - 1), true),
                n if n == ROWS / 2 => {
                    TreeNode::Entry { id: id(n), parent: None, side: false, reset: Some(Reset { first_kept: None }) }
                }
                n => entry(n, below(ROWS / 2 - 1), false),
            })
            .collect(),
    );
    for session in sessions {
        let rows: Vec<TreeRow> = session.into_iter().map(|node| TreeRow { is_message: true, node }).collect();
        assert!(scanned(&rows).path.len() > 1);
    }
}
