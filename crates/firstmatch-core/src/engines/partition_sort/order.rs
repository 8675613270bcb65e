//! Orders of key words in which regions are sorted.

/// Returns an order of words in which `regions` are sorted, or `None` if there is none.
///
/// A region is the `lo` of every word, then the `hi`. Regions are sorted if, on each word in turn, regions that were
/// equal so far are equal or disjoint. Any word for which that holds may come next, because the other words then only
/// have fewer regions to separate. So this finds an order if there is one. It prefers the word that separates most
/// regions, then the word on which they are narrowest.
///
/// For example, the regions x = 1, y = 0–9 and x = 0–3, y = 20–29 are sorted by y, then x. They are not sorted by x
/// first, because 1 and 0–3 overlap and are not equal.
pub(super) fn choose(regions: &[&[u32]]) -> Option<Box<[u8]>> {
    let key_words = regions.first()?.len() / 2;
    let mut open: Vec<usize> = (0..key_words).collect();
    let mut order = Vec::with_capacity(key_words);
    // Regions that were equal so far are next to each other.
    let mut sorted = regions.to_vec();
    let mut classes = vec![sorted.len()];
    while !open.is_empty() {
        let score = |word: usize| {
            let told = divide(&mut sorted.clone(), &classes, word)?.len();
            let width: u32 = sorted.iter().map(|region| bits(region, word)).sum();
            Some((told, u32::MAX - width, key_words - word))
        };
        let best = open.iter().filter_map(|&word| Some((score(word)?, word))).max();
        let (_, word) = best?;
        classes = divide(&mut sorted, &classes, word)?;
        open.retain(|&other| other != word);
        order.push(word as u8);
    }
    Some(order.into())
}

fn bits(region: &[u32], word: usize) -> u32 {
    32 - (region[region.len() / 2 + word] - region[word]).leading_zeros()
}

/// Sorts each class on a word and divides it; returns the lengths of all new classes.
///
/// `None` if two regions of a class overlap and are not equal.
fn divide(sorted: &mut [&[u32]], classes: &[usize], word: usize) -> Option<Vec<usize>> {
    let key_words = sorted.first()?.len() / 2;
    let interval = |region: &[u32]| (region[word], region[key_words + word]);
    let mut finer = Vec::with_capacity(classes.len() + 1);
    let mut left = sorted;
    for &len in classes {
        let (class, rest) = left.split_at_mut(len);
        left = rest;
        class.sort_unstable_by_key(|region| interval(region));
        for equal in class.chunk_by(|a, b| interval(a) == interval(b)) {
            finer.push(equal.len());
        }
        if class.windows(2).any(|two| interval(two[0]) != interval(two[1]) && two[1][word] <= two[0][key_words + word])
        {
            return None;
        }
    }
    Some(finer)
}
