//! Plan of reading a key: the position of each key word, from definitions of fields.

use crate::abi::FieldDef;

/// Part of a key that becomes a key word: 1, 2 or 4 bytes in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset from the lowest byte of the key's span.
    pub(crate) offset: usize,
    /// Number of bytes.
    pub(crate) size: usize,
}

/// Plan of reading keys in place.
///
/// # Invariants
/// - Each part lies in the span: `offset + size <= span` (`Plan::new`).
/// - There are at most as many parts as the stride has words (`Plan::new`).
#[derive(Debug)]
pub(crate) struct Plan {
    /// Offset of the span from the caller's pointer.
    pub(crate) start: usize,
    /// Number of bytes from the lowest to the highest byte that a field takes.
    pub(crate) span: usize,
    /// Parts in the order of key words.
    pub(crate) parts: Box<[Part]>,
    /// Words from one row to the next.
    pub(crate) stride: usize,
}

/// Returns the offset in a key of each field.
///
/// Fields of one `input_index` that follow each other lie one behind the other, from the offset of the first on. The
/// original reads them so, whatever offsets the others have.
pub(crate) fn positions(defs: &[FieldDef]) -> Vec<usize> {
    let (mut group, mut end) = (None, 0);
    let position = |def: &FieldDef| {
        let start = if group == Some(def.input_index) { end } else { def.offset as usize };
        group = Some(def.input_index);
        end = start + usize::from(def.size);
        start
    };
    defs.iter().map(position).collect()
}

impl Plan {
    /// Builds the plan of words at these offsets from the caller's pointer, with their sizes in bytes.
    ///
    /// There is at least one word, and rows have `stride` words.
    pub(crate) fn new(words: &[(usize, usize)], stride: usize) -> Self {
        assert!(!words.is_empty() && words.len() <= stride, "a row has a word at least, and room for all");
        let start = words.iter().map(|&(offset, _)| offset).min().unwrap_or(0);
        let end = words.iter().map(|&(offset, size)| offset + size).max().unwrap_or(0);
        let parts: Box<[_]> = words.iter().map(|&(offset, size)| Part { offset: offset - start, size }).collect();
        assert!(parts.iter().all(|part| matches!(part.size, 1 | 2 | 4)), "a word is read from 1, 2 or 4 bytes");
        Self { start, span: end - start, parts, stride }
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.parts[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(size: u8, input_index: u8, offset: u32) -> FieldDef {
        FieldDef { kind: 0, size, field_index: 0, input_index, offset }
    }

    #[test]
    fn fields_of_a_group_lie_one_behind_the_other() {
        // The offset of the second port is ignored, and a group that comes again begins anew.
        let defs = [def(1, 0, 9), def(4, 1, 12), def(2, 2, 20), def(2, 2, 99), def(4, 1, 30), def(8, 3, 40)];
        assert_eq!(positions(&defs), [9, 12, 20, 22, 30, 40]);
    }

    #[test]
    fn the_span_holds_every_part() {
        let plan = Plan::new(&[(12, 4), (9, 1), (20, 2)], 4);
        assert_eq!((plan.start, plan.span), (9, 13));
        assert_eq!(plan.parts[1], Part { offset: 0, size: 1 });
        assert_eq!(plan.parts[2], Part { offset: 11, size: 2 });
    }
}
