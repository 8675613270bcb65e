//! Suggestions ("did you mean"): the known name nearest to a wrong word.

/// Largest length of a word that is compared, in characters.
///
/// Longer words are not typing errors, and the time grows with the square of the length.
const MAX_LEN: usize = 32;

/// Returns the candidate that takes the fewest edits.
///
/// The edits must be at most a third of the word's length, or one for short words. For example, `sprot` gives `sport`,
/// one swap away.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str> + Clone) -> Option<&'c str> {
    let word: Vec<char> = word.chars().take(MAX_LEN + 1).flat_map(char::to_lowercase).collect();
    if word.len() > MAX_LEN {
        return None;
    }
    let allowed = (word.len() / 3).max(1);
    let near = |candidate: &'c str| {
        let close = candidate.len().abs_diff(word.len()) <= allowed && candidate.len() <= MAX_LEN;
        let distance = if close { distance(&word, candidate) } else { usize::MAX };
        (distance <= allowed && distance < word.len()).then_some((distance, candidate))
    };
    let best = candidates.clone().into_iter().filter_map(near).min_by_key(|&(distance, _)| distance);
    // A word cut short is taken for the first candidate that begins with it.
    let begins = |candidate: &&str| {
        word.len() >= 3 && candidate.chars().zip(&word).filter(|(c, w)| c == *w).count() == word.len()
    };
    best.map(|(_, candidate)| candidate).or_else(|| candidates.into_iter().find(begins))
}

/// Returns the number of edits between two words (optimal string alignment).
///
/// An edit is an insertion, a deletion, a replacement or a swap of neighbours.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let mut before = vec![0; other.len() + 1];
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (i, &a) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in other.iter().enumerate() {
            let mut best = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == other[j - 1] && word[i - 1] == b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let names = ["src", "dst", "sport", "dport", "proto", "tcp_flags"];
        for (word, meant) in [
            ("srcc", Some("src")),
            ("sprot", Some("sport")),
            ("PROTO", Some("proto")),
            ("tcp-flags", Some("tcp_flags")),
            ("colour", None),
            ("tcp_", Some("tcp_flags")),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), names), None);
    }
}
