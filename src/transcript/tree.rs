//! The active branch of a session: which of its rows people see, and where the next one goes (contract §3, D16, D20,
//! D22, D24).
//!
//! [`TreeScan`] answers for a whole session in linear time. [`Head`] is what it leaves behind: enough to place one more
//! row without looking at the others, or to say that all must be looked at again ([`Forward`]).

use std::collections::HashMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::event::{Event, EventKind, LeafControl, Parent, ParentLink};
use crate::model::MessageId;

/// What the tree needs of a stored row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRow {
    /// Whether the row is a message: something people would miss on the path, or be surprised to find there.
    pub is_message: bool,
    /// Its part in the tree.
    pub node: TreeNode,
}

/// A row's part in the tree (contract §3.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeNode {
    /// None: a header, a row without a usable id or parent, an opaque row without a parent.
    Absent,
    /// A canonical entry.
    Entry {
        /// Its id.
        id: MessageId,
        /// Its parent; `None` when it names none and hangs below the leaf of the moment.
        parent: Option<Parent>,
        /// It stands beside the path: the leaf does not move.
        side: bool,
        /// Set when this is a `reset`.
        reset: Option<Reset>,
    },
    /// A leaf control.
    Control {
        /// Its id.
        id: MessageId,
        /// The parent as stated. Counts only while the control is invalid.
        parent: Parent,
        /// The new leaf.
        target: Parent,
        /// The new append cursor.
        append_parent: Parent,
    },
    /// An opaque row that names a parent.
    Opaque {
        /// Its id.
        id: MessageId,
        /// Its parent.
        parent: Parent,
    },
}

/// What a `reset` row says of the history before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// The earlier row from which plain history is kept.
    pub first_kept: Option<MessageId>,
}

impl TreeRow {
    /// The tree's view of an event. `effective_parent` is the one the store keeps beside the line where it differs
    /// from what the line says (D20).
    #[must_use]
    pub fn of(event: &Event, effective_parent: Option<&Parent>) -> Self {
        let link = match effective_parent {
            Some(parent) => ParentLink::Stated(parent.clone()),
            None => event.parent.clone(),
        };
        let node = match (&event.id, link, event.kind, &event.leaf) {
            (Some(id), ParentLink::Stated(parent), EventKind::Leaf, Some(LeafControl { target, append_parent })) => {
                TreeNode::Control {
                    id: id.clone(),
                    parent,
                    target: target.clone(),
                    append_parent: append_parent.clone(),
                }
            }
            (Some(id), ParentLink::Stated(parent), EventKind::Opaque, _) => TreeNode::Opaque { id: id.clone(), parent },
            (Some(id), link @ (ParentLink::Stated(_) | ParentLink::Absent), kind, _) if kind.is_canonical() => {
                TreeNode::Entry {
                    id: id.clone(),
                    parent: if let ParentLink::Stated(parent) = link { Some(parent) } else { None },
                    side: event.side,
                    reset: (kind == EventKind::Reset).then(|| Reset { first_kept: event.first_kept.clone() }),
                }
            }
            _ => TreeNode::Absent,
        };
        Self { is_message: event.kind == EventKind::Message, node }
    }

    /// The id under which other rows can name this one; `None` when it is no part of the tree.
    #[must_use]
    pub fn id(&self) -> Option<&MessageId> {
        match &self.node {
            TreeNode::Absent => None,
            TreeNode::Entry { id, .. } | TreeNode::Control { id, .. } | TreeNode::Opaque { id, .. } => Some(id),
        }
    }
}

/// The answer for a whole session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The seqs of the rows on the path, in path order. In a flat transcript that is every row, headers included.
    pub path: Vec<u64>,
    /// Where in `path` plain history begins (D16): at the last reset, or at the row it keeps; else 0.
    pub history_start: usize,
    /// From where to go on.
    pub head: Head,
}

/// Where a session stands after its last row: small, and kept with the session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    leaf: Option<MessageId>,
    cursor: Option<MessageId>,
    /// The path ends because this id is not stored: a row that brings it would make the path longer.
    awaited: Option<MessageId>,
    control_seen: bool,
    branch: Branch,
    reset: ResetPlace,
}

/// How the path came about (contract §3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Branch {
    /// Nothing selects a path: all rows are on it. Holds until a row moves the leaf.
    Flat { messages: bool },
    /// The walk from the leaf, which can be empty after a rewind to nothing.
    Selected,
    /// The walk from the leaf comes back to itself: no row, or every row when there is no control.
    Cyclic,
}

impl Default for Branch {
    fn default() -> Self {
        Self::Flat { messages: false }
    }
}

/// Where the leaf stands to the last reset of the file. After a reset no row leaves what hangs below it (contract §3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum ResetPlace {
    /// There was none.
    #[default]
    NoReset,
    /// The leaf is the reset or hangs below it.
    Below,
    /// The reset was a side append, and the leaf does not hang below it.
    Beside,
}

/// What one more row does to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// The row is the new end of the path. Rows that are no messages may have left it: a first entry ends a flat
    /// transcript, header and all.
    OnPath(Head),
    /// The path stays as it is.
    OffPath(Head),
    /// Only a [`TreeScan`] over all rows, this one included, can tell.
    Resolve,
}

impl Head {
    /// The visible leaf.
    #[must_use]
    pub fn leaf(&self) -> Option<&MessageId> {
        self.leaf.as_ref()
    }

    /// The append cursor: the parent that the store gives a new row (contract §3.7), and the watermark's leaf (§3.5).
    #[must_use]
    pub fn cursor(&self) -> Option<&MessageId> {
        self.cursor.as_ref()
    }

    /// The id that the path's first row names as its parent and that is not stored.
    #[must_use]
    pub fn awaited(&self) -> Option<&MessageId> {
        self.awaited.as_ref()
    }

    /// Whether all rows are on the path because nothing selects one.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        match self.branch {
            Branch::Flat { .. } => true,
            Branch::Selected => false,
            Branch::Cyclic => !self.control_seen,
        }
    }

    /// Whether the walk from the leaf comes back to itself.
    #[must_use]
    pub fn is_cyclic(&self) -> bool {
        self.branch == Branch::Cyclic
    }

    /// The parent of a message appended under a stale one (D20): the append cursor, when the message names a row that
    /// is stored and is neither leaf nor cursor. `None`: the row keeps what it says.
    ///
    /// `known` says whether an id is that of a stored row with a part in the tree ([`TreeRow::id`]).
    ///
    /// # Errors
    /// Whatever `known` fails with.
    pub fn rebased_parent<E>(
        &self,
        row: &TreeRow,
        known: impl FnOnce(&MessageId) -> Result<bool, E>,
    ) -> Result<Option<Parent>, E> {
        let TreeNode::Entry { parent: Some(Parent::Below(parent)), side: false, .. } = &row.node else {
            return Ok(None);
        };
        if !row.is_message || self.is_leaf(parent) || self.is_cursor(parent) || !known(parent)? {
            return Ok(None);
        }
        Ok(Some(Parent::from(self.cursor.clone())))
    }

    /// Places one more row, in constant time (D24). The row's id must not be stored yet (D22).
    ///
    /// `known` says whether an id is that of a stored row with a part in the tree ([`TreeRow::id`]).
    ///
    /// # Errors
    /// Whatever `known` fails with.
    pub fn forward<E>(&self, row: &TreeRow, known: impl FnMut(&MessageId) -> Result<bool, E>) -> Result<Forward, E> {
        let awaited = row.id().is_some_and(|id| self.awaited.as_ref() == Some(id));
        if self.branch == Branch::Cyclic || awaited {
            return Ok(Forward::Resolve);
        }
        match &row.node {
            TreeNode::Absent => Ok(self.leaf_stays(row, self.clone())),
            TreeNode::Opaque { id, .. } => Ok(self.leaf_stays(row, Self { cursor: Some(id.clone()), ..self.clone() })),
            TreeNode::Entry { id, side: true, reset, .. } => {
                let reset = if reset.is_some() { ResetPlace::Beside } else { self.reset };
                Ok(self.leaf_stays(row, Self { cursor: Some(id.clone()), reset, ..self.clone() }))
            }
            TreeNode::Entry { id, parent, side: false, reset } => {
                let Joined::Path { awaited } = self.joined(id, parent.as_ref(), known)? else {
                    return Ok(Forward::Resolve);
                };
                let next = Self {
                    leaf: Some(id.clone()),
                    cursor: Some(id.clone()),
                    awaited,
                    reset: if reset.is_some() { ResetPlace::Below } else { self.reset },
                    ..self.clone()
                };
                Ok(self.selected(next).map_or(Forward::Resolve, Forward::OnPath))
            }
            TreeNode::Control { target, append_parent, .. } => self.controlled(row, target, append_parent, known),
        }
    }

    fn is_leaf(&self, id: &MessageId) -> bool {
        self.leaf.as_ref() == Some(id)
    }

    fn is_cursor(&self, id: &MessageId) -> bool {
        self.cursor.as_ref() == Some(id)
    }

    /// The leaf did not move: a flat transcript takes in every row, a selected path none.
    fn leaf_stays(&self, row: &TreeRow, mut next: Self) -> Forward {
        match self.branch {
            Branch::Flat { messages } => {
                next.branch = Branch::Flat { messages: messages || row.is_message };
                Forward::OnPath(next)
            }
            Branch::Selected | Branch::Cyclic => Forward::OffPath(next),
        }
    }

    /// The leaf moved: `None` when messages of a flat transcript leave the path.
    fn selected(&self, mut next: Self) -> Option<Self> {
        if self.branch == (Branch::Flat { messages: true }) {
            return None;
        }
        next.branch = Branch::Selected;
        Some(next)
    }

    /// Whether a new entry goes on from the end of the path.
    fn joined<E>(
        &self,
        id: &MessageId,
        parent: Option<&Parent>,
        mut known: impl FnMut(&MessageId) -> Result<bool, E>,
    ) -> Result<Joined, E> {
        let below_leaf = Joined::Path { awaited: self.awaited.clone() };
        let after_reset = self.reset != ResetPlace::NoReset;
        Ok(match parent {
            None => below_leaf,
            Some(Parent::Root) if self.leaf.is_none() || self.cursor.is_none() || after_reset => below_leaf,
            Some(Parent::Root) => Joined::Unclear,
            Some(Parent::Below(parent)) if self.is_leaf(parent) || self.is_cursor(parent) => below_leaf,
            Some(Parent::Below(parent)) if known(parent)? => Joined::Unclear,
            Some(Parent::Below(_)) if self.leaf.is_some() || after_reset => below_leaf,
            // No leaf could adopt the row: the path begins with it and waits for its parent.
            Some(Parent::Below(parent)) if parent != id => Joined::Path { awaited: Some(parent.clone()) },
            Some(Parent::Below(_)) => Joined::Unclear,
        })
    }

    fn controlled<E>(
        &self,
        row: &TreeRow,
        target: &Parent,
        append_parent: &Parent,
        mut known: impl FnMut(&MessageId) -> Result<bool, E>,
    ) -> Result<Forward, E> {
        let mut missing = |parent: &Parent| parent.id().map_or(Ok(false), |id| known(id).map(|known| !known));
        let stays = target.id() == self.leaf();
        if self.reset != ResetPlace::NoReset && self.leaf.is_some() {
            let leaves_reset = if stays {
                self.reset == ResetPlace::Beside
            } else if target == &Parent::Root || missing(target)? {
                true
            } else {
                return Ok(Forward::Resolve);
            };
            if leaves_reset {
                let next = Self { cursor: self.leaf.clone(), control_seen: true, ..self.clone() };
                return Ok(Forward::OffPath(next));
            }
        }
        if missing(target)? || missing(append_parent)? {
            return Ok(self.leaf_stays(row, self.clone()));
        }
        // A known id may be that of an invalid control; leaf and cursor never are.
        let append_parent = append_parent.id();
        if !stays || !(append_parent.is_none() || append_parent == self.leaf() || append_parent == self.cursor()) {
            return Ok(Forward::Resolve);
        }
        let next = Self { cursor: append_parent.cloned(), control_seen: true, ..self.clone() };
        Ok(self.selected(next).map_or(Forward::Resolve, Forward::OffPath))
    }
}

/// See [`Head::joined`].
enum Joined {
    /// The row is the path's new end.
    Path {
        /// What the path waits for from then on.
        awaited: Option<MessageId>,
    },
    /// It hangs elsewhere, or only a full look can tell.
    Unclear,
}

/// Where on a resolved path plain history begins (D16): at the last reset, or at the row it keeps when that stands
/// before it on the path; else at 0.
pub fn history_start<'a, I>(path: I) -> usize
where
    I: IntoIterator<Item = &'a TreeRow>,
    I::IntoIter: DoubleEndedIterator + ExactSizeIterator + Clone,
{
    let path = path.into_iter();
    let last_reset = path.clone().enumerate().rev().find_map(|(at, row)| match &row.node {
        TreeNode::Entry { reset: Some(reset), .. } => Some((at, reset.first_kept.as_ref())),
        _ => None,
    });
    let Some((reset_at, first_kept)) = last_reset else { return 0 };
    let kept_at = first_kept.and_then(|kept| path.take(reset_at).position(|row| row.id() == Some(kept)));
    kept_at.unwrap_or(reset_at)
}

/// Reads the rows of one session in order and finds its active branch.
///
/// Time is linear in the number of rows, memory a few dozen bytes a row beside the ids; nothing recurses.
#[derive(Debug, Clone, Default)]
pub struct TreeScan {
    slots: HashMap<Box<str>, Slot>,
    nodes: Vec<Node>,
    seqs: Vec<u64>,
    /// The resets, each with the row it keeps.
    resets: HashMap<Slot, Option<Slot>>,
    messages_seen: bool,
    control_seen: bool,
    leaf: Option<Slot>,
    cursor: Option<Slot>,
    last_reset: Option<Slot>,
    walk: u32,
    walked: Vec<Slot>,
}

/// Stands for an id that some row has or names: its place in `nodes`, plus one so that `Option<Slot>` is no larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Slot(NonZeroUsize);

#[derive(Debug, Clone)]
struct Node {
    seq: u64,
    kind: NodeKind,
    parent: Option<Slot>,
    /// Shortcut over controls: see [`TreeScan::through_controls`].
    through: Option<Slot>,
    /// Shortcut towards the root: see [`TreeScan::is_below`].
    above: Option<Slot>,
    /// All ancestors are known, and none can become the last reset.
    settled: bool,
    /// The number of the last walk that came by.
    walk: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// Named by a row, not stored so far.
    Missing,
    Entry,
    Opaque,
    Control,
    InvalidControl,
}

impl NodeKind {
    fn is_control(self) -> bool {
        matches!(self, Self::Control | Self::InvalidControl)
    }
}

impl TreeScan {
    /// A scan that has seen no row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next row. `seq` is what the path will name it by.
    ///
    /// Of two rows with one id the first counts (D22).
    pub fn push(&mut self, seq: u64, row: &TreeRow) {
        self.seqs.push(seq);
        self.messages_seen |= row.is_message;
        let Some(slot) = row.id().map(|id| self.slot(id)) else { return };
        if self.node(slot).kind != NodeKind::Missing {
            return;
        }
        match &row.node {
            TreeNode::Absent => {}
            TreeNode::Opaque { parent, .. } => {
                let parent = self.parent_slot(parent);
                self.set(slot, seq, NodeKind::Opaque, parent);
                self.cursor = Some(slot);
            }
            TreeNode::Control { parent, target, append_parent, .. } => {
                let (target, append_parent) = self.control_targets(target, append_parent);
                if !self.is_accepted(target) || !self.is_accepted(append_parent) {
                    let parent = self.parent_slot(parent);
                    self.set(slot, seq, NodeKind::InvalidControl, parent);
                    return;
                }
                self.set(slot, seq, NodeKind::Control, target);
                self.leaf = target;
                self.cursor = append_parent;
                self.control_seen = true;
            }
            TreeNode::Entry { parent, side, reset, .. } => {
                let parent = self.entry_parent(parent.as_ref(), *side);
                let parent = self.through_controls(parent);
                self.set(slot, seq, NodeKind::Entry, parent);
                self.cursor = Some(slot);
                if !side {
                    self.leaf = Some(slot);
                }
                if let Some(reset) = reset {
                    self.last_reset = Some(slot);
                    let first_kept = reset.first_kept.as_ref().map(|id| self.slot(id));
                    self.resets.insert(slot, first_kept);
                }
            }
        }
    }

    /// The active branch after the rows so far.
    #[must_use]
    pub fn resolve(&self) -> Resolution {
        let mut path = Vec::new();
        let mut reset = if self.last_reset.is_some() { ResetPlace::Beside } else { ResetPlace::NoReset };
        let (mut at, mut steps, mut cyclic) = (self.leaf, 0, false);
        while let Some(slot) = at.filter(|slot| self.node(*slot).kind != NodeKind::Missing) {
            if steps == self.nodes.len() {
                // More steps than nodes: the walk came back to itself.
                cyclic = true;
                path.clear();
                at = None;
                break;
            }
            steps += 1;
            if self.last_reset == Some(slot) {
                reset = ResetPlace::Below;
            }
            let node = self.node(slot);
            if !node.kind.is_control() {
                path.push(slot);
            }
            at = node.parent;
        }
        path.reverse();

        let branch = if cyclic {
            Branch::Cyclic
        } else if path.is_empty() && !self.control_seen {
            Branch::Flat { messages: self.messages_seen }
        } else {
            Branch::Selected
        };
        let [leaf, cursor, awaited] = self.ids([self.leaf, self.cursor, at]);
        let head = Head { leaf, cursor, awaited, control_seen: self.control_seen, branch, reset };
        let history_start = self.history_start(&path);
        let path =
            if head.is_flat() { self.seqs.clone() } else { path.iter().map(|slot| self.node(*slot).seq).collect() };
        Resolution { path, history_start, head }
    }

    /// As [`history_start`], over slots.
    fn history_start(&self, path: &[Slot]) -> usize {
        let Some((reset_at, kept)) =
            path.iter().enumerate().rev().find_map(|(at, slot)| self.resets.get(slot).map(|kept| (at, *kept)))
        else {
            return 0;
        };
        kept.and_then(|kept| path.iter().take(reset_at).position(|slot| *slot == kept)).unwrap_or(reset_at)
    }

    /// The parent of an entry before controls are looked through: contract §3.3, R3 and R4, and §3.8.
    fn entry_parent(&mut self, parent: Option<&Parent>, side: bool) -> Option<Slot> {
        let Some(parent) = parent else { return self.leaf };
        let parent = self.parent_slot(parent);
        if side {
            return parent;
        }
        let leaves_reset = self.last_reset.is_some_and(|reset| !self.is_below(parent, reset));
        let is_stale = self.leaf.is_some() && parent.is_some_and(|slot| self.node(slot).kind == NodeKind::Missing);
        let is_raw_cursor = parent == self.cursor && self.leaf != self.cursor;
        if leaves_reset || is_stale || is_raw_cursor { self.leaf } else { parent }
    }

    /// Target and append parent of a control; the current leaf for both when the control would leave the last reset.
    fn control_targets(&mut self, target: &Parent, append_parent: &Parent) -> (Option<Slot>, Option<Slot>) {
        let (target, append_parent) = (self.parent_slot(target), self.parent_slot(append_parent));
        match (self.last_reset, self.leaf) {
            (Some(reset), Some(leaf)) if !self.is_below(target, reset) => (Some(leaf), Some(leaf)),
            _ => (target, append_parent),
        }
    }

    /// Whether a control may point there (R1).
    fn is_accepted(&self, target: Option<Slot>) -> bool {
        target.is_none_or(|slot| !matches!(self.node(slot).kind, NodeKind::Missing | NodeKind::InvalidControl))
    }

    /// What a child of `start` hangs below: the first row on the way up that is no control (R5). Controls that form a
    /// ring end at one of themselves.
    fn through_controls(&mut self, start: Option<Slot>) -> Option<Slot> {
        let walk = self.begin_walk();
        let mut at = start;
        while let Some(slot) = at {
            let node = self.node_mut(slot);
            if !node.kind.is_control() || node.walk == walk {
                break;
            }
            node.walk = walk;
            at = node.through;
            self.walked.push(slot);
        }
        // The row found may be missing and turn out a control later: the next walk goes on from it.
        for slot in std::mem::take(&mut self.walked) {
            self.node_mut(slot).through = at;
        }
        at
    }

    /// Whether the way from `start` to the root, `start` included, comes by `reset`, the last reset so far.
    ///
    /// Shortcuts never pass over a missing row, and a walk ends at the last reset: so they never pass over a reset
    /// that comes later. A way without missing rows stays as it is, so that its answer holds for every later reset.
    fn is_below(&mut self, start: Option<Slot>, reset: Slot) -> bool {
        let walk = self.begin_walk();
        let mut at = start;
        let settled = loop {
            let Some(slot) = at else { break true };
            if slot == reset {
                break false;
            }
            let node = self.node_mut(slot);
            if node.kind == NodeKind::Missing {
                break false;
            }
            if node.settled || node.walk == walk {
                break true;
            }
            node.walk = walk;
            at = node.above;
            self.walked.push(slot);
        };
        for slot in std::mem::take(&mut self.walked) {
            let node = self.node_mut(slot);
            node.settled = settled;
            node.above = at;
        }
        !settled && at == Some(reset)
    }

    fn begin_walk(&mut self) -> u32 {
        self.walk = self.walk.wrapping_add(1);
        self.walk
    }

    fn parent_slot(&mut self, parent: &Parent) -> Option<Slot> {
        parent.id().map(|id| self.slot(id))
    }

    fn slot(&mut self, id: &MessageId) -> Slot {
        if let Some(slot) = self.slots.get(id.as_str()) {
            return *slot;
        }
        self.nodes.push(Node {
            seq: 0,
            kind: NodeKind::Missing,
            parent: None,
            through: None,
            above: None,
            settled: false,
            walk: 0,
        });
        let slot = Slot(NonZeroUsize::MIN.saturating_add(self.nodes.len() - 1));
        self.slots.insert(id.as_str().into(), slot);
        slot
    }

    fn set(&mut self, slot: Slot, seq: u64, kind: NodeKind, parent: Option<Slot>) {
        let node = self.node_mut(slot);
        *node = Node { seq, kind, parent, through: parent, above: parent, settled: false, walk: node.walk };
    }

    fn node(&self, slot: Slot) -> &Node {
        &self.nodes[slot.0.get() - 1]
    }

    fn node_mut(&mut self, slot: Slot) -> &mut Node {
        &mut self.nodes[slot.0.get() - 1]
    }

    /// The ids of a few slots: one pass, which spares a second copy of every id.
    fn ids<const N: usize>(&self, wanted: [Option<Slot>; N]) -> [Option<MessageId>; N] {
        let mut ids = [const { None }; N];
        for (id, slot) in &self.slots {
            for (wanted, found) in wanted.iter().zip(&mut ids) {
                if wanted.as_ref() == Some(slot) {
                    *found = MessageId::parse(id).ok();
                }
            }
        }
        ids
    }
}
