//! Orders of lanes.

/// An order in which these regions are sorted, each `lo` of every lane, then `hi`; `None` where there is no such order.
///
/// On each lane in turn, regions that were equal so far are equal or apart. Whichever lane that holds for is taken, no
/// other one is lost: it only ever has fewer regions to tell apart. So this finds an order if there is one, and is free
/// to take the lane that tells most regions apart, of these the one on which they are narrowest.
pub(super) fn choose(regions: &[&[u32]]) -> Option<Box<[u8]>> {
    let lanes = regions.first()?.len() / 2;
    let mut open: Vec<usize> = (0..lanes).collect();
    let mut order = Vec::with_capacity(lanes);
    // Regions that were equal so far are next to each other.
    let mut sorted = regions.to_vec();
    let mut classes = vec![sorted.len()];
    while !open.is_empty() {
        let score = |lane: usize| {
            let told = divide(&mut sorted.clone(), &classes, lane)?.len();
            let width: u32 = sorted.iter().map(|region| bits(region, lane)).sum();
            Some((told, u32::MAX - width, lanes - lane))
        };
        let best = open.iter().filter_map(|&lane| Some((score(lane)?, lane))).max();
        let (_, lane) = best?;
        classes = divide(&mut sorted, &classes, lane)?;
        open.retain(|&other| other != lane);
        order.push(lane as u8);
    }
    Some(order.into())
}

fn bits(region: &[u32], lane: usize) -> u32 {
    32 - (region[region.len() / 2 + lane] - region[lane]).leading_zeros()
}

/// Sorts each class on a lane: the lengths of the classes then, unless two regions overlap and are not equal.
fn divide(sorted: &mut [&[u32]], classes: &[usize], lane: usize) -> Option<Vec<usize>> {
    let lanes = sorted.first()?.len() / 2;
    let interval = |region: &[u32]| (region[lane], region[lanes + lane]);
    let mut finer = Vec::with_capacity(classes.len() + 1);
    let mut left = sorted;
    for &len in classes {
        let (class, rest) = left.split_at_mut(len);
        left = rest;
        class.sort_unstable_by_key(|region| interval(region));
        for equal in class.chunk_by(|a, b| interval(a) == interval(b)) {
            finer.push(equal.len());
        }
        if class.windows(2).any(|two| interval(two[0]) != interval(two[1]) && two[1][lane] <= two[0][lanes + lane]) {
            return None;
        }
    }
    Some(finer)
}
