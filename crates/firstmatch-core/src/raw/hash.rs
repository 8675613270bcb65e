//! Keyed hash of the bits of a row that a tuple selects.
//!
//! The hash is NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication",
//! CRYPTO 1999): the sum of the products of neighbouring words, each with a secret word added. An attacker who does not
//! know the secret words makes the sums of two keys equal with probability 2^-32, whichever keys are chosen. NH is fast
//! because the products of a row do not depend on each other.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};

/// Returns a source of secret numbers: random numbers of this process, or the numbers of a seed.
pub(crate) fn secrets(seed: Option<u64>) -> impl FnMut() -> u32 {
    let random = RandomState::new();
    let fixed = BuildHasherDefault::<DefaultHasher>::default();
    let mut count = 0u64;
    move || {
        count += 1;
        seed.map_or_else(|| random.hash_one(count), |seed| fixed.hash_one((seed, count))) as u32
    }
}

/// Hash function of all tuples of an engine.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    /// Secret word for each word of a row.
    pub(super) secret: Box<[u32]>,
    /// Secret words of the last step, which reduces the sum to 32 bits.
    pub(super) last: [u32; 2],
    /// Mask that a test applies to every hash, see [`tests::truncated`].
    #[cfg(test)]
    kept: u32,
}

impl Hasher {
    /// Creates a hasher for rows of `stride` words, an even number, from secret numbers.
    pub(crate) fn new(stride: usize, mut secret: impl FnMut() -> u32) -> Self {
        Self {
            secret: (0..stride).map(|_| secret()).collect(),
            last: [secret(), secret()],
            #[cfg(test)]
            kept: tests::kept(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.secret[..])
    }

    /// Returns the hash of a row under the masks of `tuple`, both as long as the secret words.
    #[inline(always)]
    pub(crate) fn hash(&self, row: &[u32], tuple: &[u32]) -> u32 {
        let pairs = row.as_chunks::<2>().0.iter().zip(tuple.as_chunks::<2>().0).zip(self.secret.as_chunks::<2>().0);
        self.finish(pairs.fold(0u64, |sum, ((row, mask), secret)| {
            let [a, b] = [0, 1].map(|i| (row[i] & mask[i]).wrapping_add(secret[i]));
            sum.wrapping_add(u64::from(a) * u64::from(b))
        }))
    }

    #[inline(always)]
    pub(super) fn finish(&self, sum: u64) -> u32 {
        let (low, high) = ((sum as u32).wrapping_add(self.last[0]), ((sum >> 32) as u32).wrapping_add(self.last[1]));
        let product = u64::from(low) * u64::from(high);
        let hash = product as u32 ^ (product >> 32) as u32;
        #[cfg(test)]
        let hash = hash & self.kept;
        hash
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::process::Command;

    use super::*;

    thread_local! {
        static KEPT: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    /// Returns the mask for the hashes of a new hasher of this thread.
    pub(super) fn kept() -> u32 {
        KEPT.get()
    }

    /// Runs a test in which hashes of new engines keep only their four leading bits.
    ///
    /// Most different keys then have equal hashes, so that only the comparison behind the hash tells them apart.
    pub(crate) fn truncated<T>(run: impl FnOnce() -> T) -> T {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                KEPT.set(u32::MAX);
            }
        }
        let _restore = Restore;
        KEPT.set(0xF000_0000);
        run()
    }

    /// Name of the variable that makes `seeds_differ_between_processes` print its secrets.
    const PRINTS: &str = "FIRSTMATCH_TEST_PRINTS_SECRETS";

    /// Every process draws its own secrets, and a fixed seed gives the same ones everywhere.
    ///
    /// An attacker who learns the secrets of one process must not know those of the next.
    #[test]
    fn seeds_differ_between_processes() {
        let random: Vec<u32> = std::iter::repeat_with(secrets(None)).take(4).collect();
        let fixed: Vec<u32> = std::iter::repeat_with(secrets(Some(7))).take(4).collect();
        let line = |random: &[u32], fixed: &[u32]| format!("secrets {random:?} {fixed:?}");
        if std::env::var_os(PRINTS).is_some() {
            println!("{}", line(&random, &fixed));
            return;
        }
        let mut seen = vec![line(&random, &fixed)];
        for _ in 0..2 {
            let program = std::env::current_exe().expect("the test has a program");
            let mut command = Command::new(program);
            command.args(["--exact", "raw::hash::tests::seeds_differ_between_processes", "--nocapture"]);
            let output = command.env(PRINTS, "1").output().expect("the test starts again");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let printed = text.lines().find_map(|line| line.find("secrets [").map(|at| line[at..].to_owned()));
            let printed = printed.unwrap_or_else(|| panic!("no secrets in {text}"));
            assert!(printed.ends_with(&format!("{fixed:?}")), "a fixed seed is fixed: {printed}");
            assert!(!seen.contains(&printed), "two processes have the same secrets: {printed}");
            seen.push(printed);
        }
        let other: Vec<u32> = std::iter::repeat_with(secrets(Some(8))).take(4).collect();
        assert_ne!(other, fixed, "another seed gives other secrets");
    }

    /// No difference of keys carries over to hashes, under XOR or addition.
    ///
    /// A linear hash (CRC, a sum, a XOR of table entries) maps equal differences of keys to equal differences of
    /// hashes. Colliding keys can then be computed without the secret. The hash also depends on every word and on the
    /// secret.
    #[test]
    fn hashes_are_not_linear() {
        let row =
            |at: u32| -> Vec<u32> { (0..8).map(|word| at.wrapping_mul(0x9E37_79B9 + 2 * word) ^ at >> 3).collect() };
        let whole = [u32::MAX; 8];
        let hashers = [1, 2].map(|seed| Hasher::new(8, secrets(Some(seed))));
        let hash = |row: &[u32]| hashers[0].hash(row, &whole);
        for bit in 0..8 * 32 {
            let flipped = |row: &[u32]| {
                let mut row = row.to_vec();
                row[bit / 32] ^= 1 << (bit % 32);
                row
            };
            let (mut xors, mut sums, mut equal) = (Vec::new(), Vec::new(), 0);
            for at in 1..=64 {
                let (old, new) = (hash(&row(at)), hash(&flipped(&row(at))));
                xors.push(old ^ new);
                sums.push(new.wrapping_sub(old));
                equal += usize::from(old == new);
            }
            for differences in [&mut xors, &mut sums] {
                differences.sort_unstable();
                differences.dedup();
                assert!(differences.len() > 48, "bit {bit}: {} of 64 differences", differences.len());
            }
            assert!(equal <= 1, "bit {bit} is not in the hash");
        }
        let differ = (1..=64).filter(|&at| hash(&row(at)) != hashers[1].hash(&row(at), &whole)).count();
        assert!(differ >= 63, "the hash does not depend on the secret");
    }
}
