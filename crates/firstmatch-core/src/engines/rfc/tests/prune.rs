//! Pruning of lists.

use super::*;

/// Returns the lists of the classes of a leaf or of two joined leaves, pruned.
fn lists(set: &Lowered, leaves: &[usize]) -> Vec<Vec<u32>> {
    let visits = Visits::default();
    let room = Room { allowed: usize::MAX, visits: &visits };
    let Start { products, made, cover } = leaves_of(set, &Config::default(), &room).expect("no limit");
    let parts: Vec<&Part> = leaves.iter().map(|&leaf| &made[leaf].part).collect();
    let lists = |part: &Part| -> Vec<Vec<u32>> { (0..part.len()).map(|class| part.list(class).to_vec()).collect() };
    let &[a, b] = &parts[..] else { return lists(parts[0]) };
    let joining = Joining { products: products.len(), cover: cover.as_ref(), room: &room };
    let joined = join(a, b, usize::MAX, joining, &mut |_, _| Ok(())).expect("no limit").expect("no limit");
    lists(&joined)
}

fn ranges(rules: &[[(u128, u128); 3]]) -> Lowered {
    let tests = |rule: &[(u128, u128); 3]| {
        let is_open = |&(_, (lo, hi)): &(usize, (u128, u128))| (lo, hi) == (0, 255);
        let all = rule.iter().copied().enumerate().filter(|one| !is_open(one));
        all.map(|(field, (lo, hi))| (field, Test::Range { lo, hi })).collect()
    };
    set(&schema(&[8; 3]), rules.iter().map(tests))
}

/// A product is dropped exactly if an earlier one covers it in the words still to come.
#[test]
fn lists_lose_products_that_cannot_be_the_first_match() {
    const ANY: (u128, u128) = (0, 255);
    // Both hold source 5. In the third word, the earlier one covers the later one.
    let earlier = lists(&ranges(&[[(5, 9), (1, 2), (0, 99)], [(5, 5), (1, 1), (7, 8)]]), &[0, 1]);
    assert_eq!(earlier, [vec![], vec![0]]);
    // The same the other way round: a later rule drops no earlier one.
    let later = lists(&ranges(&[[(5, 5), (1, 1), (7, 8)], [(5, 9), (1, 2), (0, 99)]]), &[0, 1]);
    assert_eq!(later, [vec![], vec![0, 1], vec![1]]);
    // The earlier rule covers the later one in the words that are joined, but not in the third.
    let inside = lists(&ranges(&[[(0, 99), (0, 99), (7, 8)], [(5, 5), (1, 1), (7, 9)]]), &[0, 1]);
    assert!(inside.contains(&vec![0, 1]), "{inside:?}");
    // If the earlier rule is open in the first two words, the second rule is dropped there. The earlier is in no list.
    let open = lists(&ranges(&[[ANY, ANY, (7, 9)], [(5, 5), (1, 1), (7, 8)], [(5, 5), (1, 1), ANY]]), &[0, 1]);
    assert_eq!(open, [vec![], vec![2]]);
    // The second rule never matches, so it separates no classes in any leaf.
    assert_eq!(
        lists(&ranges(&[[ANY, (1, 9), ANY], [(5, 5), (2, 3), (4, 4)], [(6, 6), ANY, ANY]]), &[0]),
        [vec![], vec![2]]
    );
}

/// Pruned tables are never larger, and sometimes smaller.
#[test]
fn pruning_saves_bytes() {
    let bytes = |prune| {
        let of = |rules| {
            let engine = Rfc::build(&of_ports(rules), &Config { prune, ..Config::default() }).expect("no budget");
            Engine::stats(&engine).total_bytes()
        };
        [10, 40, 60].map(of)
    };
    let (pruned, whole) = (bytes(true), bytes(false));
    assert!(pruned.iter().zip(&whole).all(|(pruned, whole)| pruned <= whole), "{pruned:?} {whole:?}");
    assert!(pruned[2] < whole[2], "{pruned:?} {whole:?}");
}
