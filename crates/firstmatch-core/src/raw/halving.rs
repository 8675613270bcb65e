//! Binary search without branches, many values side by side.

/// Returns, for each value, the place of the last of `starts` that is at most the value; 0 if none is.
///
/// The starts ascend. All values take the same steps, whose loads do not wait for each other.
#[inline(always)]
pub(crate) fn halve<const VALUES: usize>(starts: &[u32], values: &[u32; VALUES]) -> [u32; VALUES] {
    let (mut bases, mut left) = ([0u32; VALUES], starts.len());
    while left > 1 {
        let half = left / 2;
        for (base, &value) in bases.iter_mut().zip(values) {
            // SAFETY: at most `starts.len() - left` was added to a base before, and `half` is less than `left`.
            let start = unsafe { *starts.get_unchecked(*base as usize + half) };
            // A comparison and a multiplication need no branch.
            *base += u32::from(start <= value) * half as u32;
        }
        left -= half;
    }
    bases
}

#[cfg(test)]
mod tests {
    use super::halve;

    #[test]
    fn the_last_start_at_most_a_value_is_found() {
        for count in 0..70u32 {
            let starts: Vec<u32> = (0..count).map(|at| 3 * at).collect();
            for value in 0..3 * count + 5 {
                let last = starts.partition_point(|&start| start <= value).saturating_sub(1);
                let values = [value, 0, u32::MAX];
                assert_eq!(halve(&starts, &values), [last as u32, 0, count.saturating_sub(1)]);
            }
        }
    }
}
