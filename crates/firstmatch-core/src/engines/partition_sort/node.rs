//! Nodes: one word of a partition's keys, cut into up to 16 intervals.
//!
//! A small node is one line, a wide node two:
//!
//! ```text
//! small   header | 7 keys  | 8 children
//! wide    header | 15 keys | 16 children
//! ```
//!
//! The header has the key word that the node divides, and the number of children. The key of a child is the smallest
//! value below it; the first child needs none. Unused keys are `u32::MAX` and unused children repeat the last one. So
//! the number of keys that are at most a packet's word always is the index of the child to go to.
//!
//! For example, a small node of three children has the keys 10 and 20. One key is at most 15, which leads to child 1.
//! All seven are at most `u32::MAX`, which leads to child 7, a copy of child 2.

use super::arena::Arena;
use crate::raw::LINE_WORDS;

/// Flag of a handle: a wide node. Without this and [`ENTRY`] it is a small one.
///
/// The other bits are the first line.
pub(super) const WIDE: u32 = 1 << 31;
/// Flag of a handle: the first entry of a group.
pub(super) const ENTRY: u32 = 1 << 30;

/// Maximum number of children of a small node and of a wide one.
const SMALL_ROOM: usize = 8;
pub(super) const WIDE_ROOM: usize = 16;
/// Minimum number of children of a node that is not merged with a sibling.
const LEAST: usize = 4;
/// Maximum number of children with which a wide node becomes a small one.
const FEW: usize = 6;

pub(super) fn is_entry(handle: u32) -> bool {
    handle & (WIDE | ENTRY) == ENTRY
}

pub(super) fn line_of(handle: u32) -> u32 {
    handle & !(WIDE | ENTRY)
}

pub(super) fn room(handle: u32) -> usize {
    if handle & WIDE == 0 { SMALL_ROOM } else { WIDE_ROOM }
}

pub(super) fn lines_of(handle: u32) -> usize {
    room(handle) / SMALL_ROOM
}

/// Node outside the arena, with room for the children of two nodes.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) word: u32,
    pub(super) len: usize,
    /// Keys of the children; the first one is not stored in the arena.
    pub(super) keys: [u32; 2 * WIDE_ROOM],
    pub(super) children: [u32; 2 * WIDE_ROOM],
}

impl Node {
    pub(super) fn new(word: u32) -> Self {
        Self { word, len: 0, keys: [0; 2 * WIDE_ROOM], children: [0; 2 * WIDE_ROOM] }
    }

    pub(super) fn is_underfull(&self) -> bool {
        self.len < LEAST
    }

    pub(super) fn insert(&mut self, at: usize, key: u32, child: u32) {
        self.keys.copy_within(at..self.len, at + 1);
        self.children.copy_within(at..self.len, at + 1);
        (self.keys[at], self.children[at]) = (key, child);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.children.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Appends the children of the node to the right; `key` becomes the key of the first of them.
    pub(super) fn append(&mut self, right: &Self, key: u32) {
        let to = self.len..self.len + right.len;
        self.keys[to.clone()].copy_from_slice(&right.keys[..right.len]);
        self.children[to].copy_from_slice(&right.children[..right.len]);
        self.keys[self.len] = key;
        self.len += right.len;
    }

    /// Keeps the first `len` children; returns a node of the others, with all their keys.
    pub(super) fn split_off(&mut self, len: usize) -> Self {
        let mut right = Self::new(self.word);
        right.len = self.len - len;
        right.keys[..right.len].copy_from_slice(&self.keys[len..self.len]);
        right.children[..right.len].copy_from_slice(&self.children[len..self.len]);
        self.len = len;
        right
    }
}

impl Arena {
    /// Returns the word of a node, its number of children, its keys and its children.
    ///
    /// The keys begin with the key of the second child.
    pub(super) fn parts(&self, node: u32) -> (u32, usize, &[u32], &[u32]) {
        let (words, room) = (self.run(line_of(node)), room(node));
        let len = (words[0] >> 16) as usize;
        (words[0] & 0xFFFF, len, &words[1..len], &words[room..room + len])
    }

    pub(super) fn read(&self, handle: u32) -> Node {
        let (word, len, keys, children) = self.parts(handle);
        let mut node = Node::new(word);
        node.len = len;
        node.keys[1..len].copy_from_slice(keys);
        node.children[..len].copy_from_slice(children);
        node
    }

    /// Overwrites the node of `handle`, which must have room for the new one.
    pub(super) fn write(&mut self, handle: u32, node: &Node) {
        let (room, len) = (room(handle), node.len);
        let words = self.run_mut(line_of(handle), lines_of(handle));
        words[0] = node.word | (len as u32) << 16;
        words[1..len].copy_from_slice(&node.keys[1..len]);
        words[len..room].fill(u32::MAX);
        words[room..room + len].copy_from_slice(&node.children[..len]);
        words[room + len..].fill(node.children[len - 1]);
    }

    /// Adds a node of at most 16 children; returns its handle.
    pub(super) fn add_node(&mut self, node: &Node) -> u32 {
        let handle = if node.len <= SMALL_ROOM { self.allocate(1) } else { self.allocate(2) | WIDE };
        self.write(handle, node);
        handle
    }

    /// Writes a node of at most 16 children back; returns its handle, which may be a new one.
    pub(super) fn update(&mut self, handle: u32, node: &Node) -> u32 {
        if node.len > room(handle) {
            self.drop_node(handle);
            return self.add_node(node);
        }
        let mut handle = handle;
        if node.len <= FEW && handle & WIDE != 0 {
            handle &= !WIDE;
            self.release(handle + 1, 1);
        }
        self.write(handle, node);
        handle
    }

    pub(super) fn drop_node(&mut self, handle: u32) {
        self.release(line_of(handle), lines_of(handle));
    }

    pub(super) fn set_child(&mut self, node: u32, at: usize, child: u32) {
        let room = room(node);
        let words = self.run_mut(line_of(node), lines_of(node));
        let len = (words[0] >> 16) as usize;
        let end = if at + 1 == len { room } else { at + 1 };
        words[room + at..room + end].fill(child);
    }

    pub(super) fn set_key(&mut self, node: u32, at: usize, key: u32) {
        self.run_mut(line_of(node), lines_of(node))[at] = key;
    }
}

const _: () = assert!(2 * SMALL_ROOM == LINE_WORDS && 2 * WIDE_ROOM == 2 * LINE_WORDS);
