//! Places in a JSON text, and the faults there.
//!
//! A node is the slice of the text that holds a value. Its content is read level by level, each time from the text, so
//! that every value's place is known. The path to a value is found only for a fault that is shown.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use firstmatch_core::Diagnostic;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Faults;
use crate::hidden::visible;
use crate::report::Span;

/// Maximum number of characters of a line that a diagnostic shows.
const MAX_TEXT: usize = 4096;
/// Maximum number of characters of a value that a message repeats.
const MAX_WORD: usize = 48;

/// Maximum number of members of an object that are compared pair by pair; more are hashed.
const FEW: usize = 16;

/// Text of one value, a part of the document.
pub(crate) type Node<'t> = &'t str;

/// Document, and its faults so far.
pub(crate) struct Doc<'t> {
    text: &'t str,
    /// Offset at which each line begins.
    lines: Vec<usize>,
    faults: Vec<(usize, Diagnostic)>,
    more: usize,
    cap: usize,
}

/// Members of an object that were not taken yet.
pub(crate) struct Object<'t> {
    node: Node<'t>,
    members: Vec<Member<'t>>,
    /// Names of members that were asked for, for messages.
    known: Vec<&'static str>,
}

struct Member<'t> {
    key: Cow<'t, str>,
    key_node: Node<'t>,
    value: Node<'t>,
}

impl<'t> Doc<'t> {
    /// Returns the document and its root. A text that is not JSON has one fault.
    pub(crate) fn new(text: &'t str, cap: usize) -> Result<(Self, Node<'t>), Faults> {
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(newlines).collect();
        let mut doc = Self { text, lines, faults: Vec::new(), more: 0, cap: cap.max(1) };
        match serde_json::from_str::<&RawValue>(text) {
            Ok(root) => Ok((doc, root.get())),
            Err(error) => {
                let line = error.line().clamp(1, doc.lines.len());
                let start = doc.lines[line - 1];
                let mut at = (start + error.column().saturating_sub(1)).min(text.len());
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                let message = error.to_string();
                let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
                let fault = doc.diagnostic(at, at, format!("no JSON: {message}"), None);
                doc.faults.push((at, fault));
                Err(doc.into_faults())
            }
        }
    }

    /// Returns the offset at which a node begins.
    fn start(&self, node: Node<'t>) -> usize {
        // Every node is a slice of the text.
        (node.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    /// Returns the line a node begins on, from 1.
    pub(crate) fn line(&self, node: Node<'t>) -> u32 {
        let at = self.start(node);
        u32::try_from(self.lines.partition_point(|&start| start <= at)).unwrap_or(u32::MAX)
    }

    /// Returns the first line of a node, from where it begins.
    pub(crate) fn span(&self, node: Node<'t>) -> Span {
        let (start, line) = (self.start(node), self.line(node));
        let end = start + node.find('\n').unwrap_or(node.len());
        Span { line, line_start: self.lines[line as usize - 1], start, end }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the number of faults so far.
    pub(crate) fn count(&self) -> usize {
        self.faults.len() + self.more
    }

    /// Returns the faults, in order of lines.
    pub(crate) fn into_faults(mut self) -> Faults {
        self.faults.sort_by_key(|(at, _)| *at);
        Faults { faults: self.faults.into_iter().map(|(_, fault)| fault).collect(), more: self.more }
    }

    /// Notes a fault of a value and returns `None`.
    pub(crate) fn fault<T>(
        &mut self,
        node: Node<'t>,
        what: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Option<T> {
        if self.faults.len() >= self.cap {
            self.more += 1;
            return None;
        }
        let expected = Some(expected.into()).filter(|expected| !expected.is_empty());
        let fault = self.about(node, what, expected);
        self.faults.push((self.start(node), fault));
        None
    }

    /// Returns a diagnostic about a value, with the place where it begins.
    pub(crate) fn about(&self, node: Node<'t>, what: impl fmt::Display, expected: Option<String>) -> Diagnostic {
        let at = self.start(node);
        let end = at + node.find('\n').unwrap_or(node.len());
        // For an object or a list, marking the opening bracket is enough.
        let end = if node.starts_with(['{', '[']) { at + 1 } else { end };
        self.diagnostic(at, end, format!("{}: {what}", self.pointer(at)), expected)
    }

    fn diagnostic(&self, at: usize, end: usize, message: String, expected: Option<String>) -> Diagnostic {
        let index = self.lines.partition_point(|&start| start <= at).max(1) - 1;
        let start = self.lines[index];
        let line = self.text[start..].lines().next().unwrap_or("");
        let count = |text: Option<&str>| u32::try_from(text.unwrap_or("").chars().count()).unwrap_or(u32::MAX);
        let text = match line.char_indices().nth(MAX_TEXT) {
            Some((cut, _)) => format!("{}…", visible(&line[..cut])),
            None => visible(line).into_owned(),
        };
        Diagnostic {
            line: u32::try_from(index + 1).unwrap_or(u32::MAX),
            column: count(self.text.get(start..at)).saturating_add(1),
            width: count(self.text.get(at..end)),
            message: visible(&message).into_owned(),
            expected,
            text,
        }
    }

    /// Returns the JSON pointer (RFC 6901) of the value at the offset `at`.
    ///
    /// For example, it is `/rules/3/action` for the fourth rule's action.
    fn pointer(&self, at: usize) -> String {
        let mut pointer = String::new();
        let Ok(root) = serde_json::from_str::<&RawValue>(self.text) else { return pointer };
        let mut node = root.get();
        loop {
            let inside = |value: &str| at < self.end(value);
            let step = match node.as_bytes().first() {
                Some(b'{') => {
                    // A place in a key counts as a place in its value.
                    let members = members(node).unwrap_or_default();
                    let found = members.into_iter().find(|m| self.start(m.key_node) <= at && inside(m.value));
                    found.map(|m| (m.key.replace('~', "~0").replace('/', "~1"), m.value))
                }
                Some(b'[') => {
                    let found = items(node).unwrap_or_default().into_iter().enumerate();
                    let mut found = found.filter(|(_, item)| self.start(item) <= at && inside(item));
                    found.next().map(|(index, item)| (index.to_string(), item))
                }
                _ => None,
            };
            let Some((name, value)) = step else { break };
            pointer.push('/');
            pointer.push_str(&name);
            node = value;
        }
        // The root has the empty pointer, which a reader would not see.
        if pointer.is_empty() { "the document".to_owned() } else { pointer }
    }

    fn end(&self, node: &str) -> usize {
        (node.as_ptr() as usize + node.len()).saturating_sub(self.text.as_ptr() as usize)
    }

    /// Returns the members of an object.
    pub(crate) fn object(&mut self, node: Node<'t>, what: &str) -> Option<Object<'t>> {
        if !node.starts_with('{') {
            return self.fault(node, format_args!("{} is no {what}", shown(node)), "an object");
        }
        let Ok(members) = members(node) else { return self.fault(node, "a key is no text", "") };
        let mut object = Object { node, members: Vec::with_capacity(members.len()), known: Vec::new() };
        // Many members are hashed, because a faulty object may have any number of them.
        let mut seen = (members.len() > FEW).then(HashSet::new);
        for member in members {
            let twice = match &mut seen {
                Some(seen) => !seen.insert(member.key.clone()),
                None => object.members.iter().any(|earlier| earlier.key == member.key),
            };
            if twice {
                let what = format!("{} is given twice", shown(member.key_node));
                let _: Option<()> = self.fault(member.key_node, what, "");
            } else {
                object.members.push(member);
            }
        }
        Some(object)
    }

    /// Returns the values of a list.
    pub(crate) fn list(&mut self, node: Node<'t>, what: &str) -> Option<Vec<Node<'t>>> {
        match items(node) {
            Ok(items) if node.starts_with('[') => Some(items),
            _ => self.fault(node, format_args!("{} is no {what}", shown(node)), "a list"),
        }
    }

    /// Returns a text; `expected` describes it for the message if there is another value.
    pub(crate) fn string(&mut self, node: Node<'t>, what: &str, expected: &str) -> Option<Cow<'t, str>> {
        match string(node) {
            Some(text) => Some(text),
            None => self.fault(node, format_args!("{} is no {what}", shown(node)), expected),
        }
    }

    pub(crate) fn boolean(&mut self, node: Node<'t>, what: &str) -> Option<bool> {
        match node {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.fault(node, format_args!("{} is no {what}", shown(node)), "true or false"),
        }
    }

    /// Returns the value that belongs to the word at this place in `choices`.
    pub(crate) fn choice<T: Copy>(&mut self, node: Node<'t>, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let word = string(node);
        let found = choices.iter().find(|(name, _)| word.as_deref() == Some(name));
        if let Some(&(_, value)) = found {
            return Some(value);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("`\"{name}\"`")).collect();
        let expected = if names.len() > 12 { String::new() } else { or(&names) };
        self.fault(node, format_args!("{} is no {what}", shown(node)), expected)
    }
}

impl<'t> Object<'t> {
    /// Returns the member of this name, if there is one that was not taken yet.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Node<'t>> {
        self.knows(&[name]);
        let at = self.members.iter().position(|member| member.key == name)?;
        Some(self.members.swap_remove(at).value)
    }

    /// Notes names of members that are known, whether they are taken or not.
    pub(crate) fn knows(&mut self, names: &[&'static str]) {
        for &name in names {
            if !self.known.contains(&name) {
                self.known.push(name);
            }
        }
    }

    /// Returns the member of this name, which must be there.
    pub(crate) fn need(&mut self, doc: &mut Doc<'t>, name: &'static str) -> Option<Node<'t>> {
        let found = self.take(name);
        if found.is_none() {
            return doc.fault(self.node, format_args!("the member \"{name}\" is missing"), "");
        }
        found
    }

    pub(crate) fn node(&self) -> Node<'t> {
        self.node
    }

    /// Whether the object has a member of this name that was not taken yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.key == name)
    }

    /// Ends reading the object: members that were not taken are faults.
    pub(crate) fn finish(self, doc: &mut Doc<'t>) {
        if self.members.is_empty() {
            return;
        }
        let names: Vec<_> = self.known.iter().map(|name| format!("\"{name}\"")).collect();
        for member in self.members {
            let what = format!("there is no member {}", shown(member.key_node));
            let _: Option<()> = doc.fault(member.key_node, what, or(&names));
        }
    }
}

/// Joins names as `a, b or c`.
fn or(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Returns a value for messages, cut if it is long.
pub(crate) fn shown(node: &str) -> String {
    match node.as_bytes().first() {
        Some(b'{') => return "an object".into(),
        Some(b'[') => return "a list".into(),
        _ => {}
    }
    match node.char_indices().nth(MAX_WORD) {
        Some((at, _)) => format!("`{}…`", visible(&node[..at])),
        None => format!("`{}`", visible(node)),
    }
}

pub(crate) fn string(node: Node<'_>) -> Option<Cow<'_, str>> {
    if !node.starts_with('"') {
        return None;
    }
    // Without escapes the text is the slice between the quotes.
    let inner = &node[1..node.len().max(2) - 1];
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(node).ok().map(Cow::Owned)
}

fn members(node: Node<'_>) -> serde_json::Result<Vec<Member<'_>>> {
    struct Members;
    impl<'t> Visitor<'t> for Members {
        type Value = Vec<Member<'t>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut out = Vec::new();
            while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                let (key_node, value) = (key.get(), value.get());
                let key = string(key_node).ok_or_else(|| serde::de::Error::custom("a key is no text"))?;
                out.push(Member { key, key_node, value });
            }
            Ok(out)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(node);
    (&mut deserializer).deserialize_map(Members)
}

fn items(node: Node<'_>) -> serde_json::Result<Vec<Node<'_>>> {
    struct Items;
    impl<'t> Visitor<'t> for Items {
        type Value = Vec<Node<'t>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut out = Vec::new();
            while let Some(item) = seq.next_element::<&RawValue>()? {
                out.push(item.get());
            }
            Ok(out)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(node);
    (&mut deserializer).deserialize_seq(Items)
}
