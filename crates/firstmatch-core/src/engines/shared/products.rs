//! Products of sets: regions of a rule that differ in one word only become one product.

use super::classes::{Classes, Room};
use crate::engine::budget::Visits;
use crate::error::BuildError;
use crate::rule::{FieldSets, Lowered, Match, Region, RuleProducts, containing_prefix};

/// Maximum number of products once wide fields or masks multiply them.
const MOST: usize = 1 << 20;

/// Closed interval of values of a word.
pub(crate) type Interval = (u32, u32);
/// Value and mask of each word; empty if no word has a mask.
pub(crate) type Masks = Vec<(u32, u32)>;

/// Rules as products, each of one set of values for each word, in order of rank.
///
/// A key lies in a product if each of its words is in the word's set. A key lies in a product of a rule exactly if it
/// lies in a region of that rule. For example, `sport { 22, 80 } dport not 443` is four regions and one product: the
/// intervals 22 and 80 of one word, 0 to 442 and 444 to 65,535 of the other.
pub(crate) struct Products {
    /// Rule of each product.
    pub(crate) matches: Vec<Match>,
    /// Number of products before the first of each rule, then the number of all products.
    pub(crate) firsts: Vec<u32>,
    /// Intervals of each word with their products. In one product they do not overlap.
    pub(crate) intervals: Vec<Vec<(usize, Interval)>>,
    /// Values under masks of each product.
    pub(crate) masks: Vec<Masks>,
}

impl Products {
    /// Builds the products of a rule set, and counts a visit for each word of a region.
    ///
    /// The words of a rule with several regions are counted again for each word by which its regions are united. If the
    /// rules are kept as products of sets, the words of each set are counted once, and those of each product built.
    ///
    /// # Errors
    /// If there were too many visits, or the sets of wide fields or with masks make too many products.
    pub(crate) fn of(set: &Lowered, visits: &Visits) -> Result<Self, BuildError> {
        let key_words = set.schema().words().len();
        let mut all =
            Self { matches: Vec::new(), firsts: vec![0], intervals: vec![Vec::new(); key_words], masks: Vec::new() };
        if let Some(products) = set.products() {
            all.push_products(set, products, visits)?;
            return Ok(all);
        }
        for (rule, regions) in set.by_rule() {
            visits.add(regions.len() * key_words);
            visits.check()?;
            if regions.len() == 1 {
                let region = set.regions().get(regions.start);
                all.push(rule, masks(region), |word| [(region.lo[word], region.hi[word])]);
            } else {
                let united = United::of(regions.map(|at| set.regions().get(at)), key_words, visits)?;
                for product in united.rows.chunks_exact(united.width) {
                    all.push(rule, united.masks(product), |word| united.intervals(product, word));
                }
            }
            all.firsts.push(all.matches.len() as u32);
        }
        Ok(all)
    }

    /// Adds all products of sets.
    ///
    /// The boxes of each set are united over the words of its field, and a product of sets becomes one product for each
    /// way to choose a row of each field. That is a single one if no field is wide and no set has masks.
    fn push_products(&mut self, set: &Lowered, products: &RuleProducts, visits: &Visits) -> Result<(), BuildError> {
        let key_words = set.schema().words().len();
        let rows = products.sets().iter().map(|sets| united(sets, visits)).collect::<Result<Vec<_>, _>>()?;
        for (rule, kept) in set.kept_by_rule() {
            for product in kept {
                let choices: Vec<&[FieldRow]> =
                    products.of(product).zip(&rows).map(|((_, number), rows)| &rows[number as usize][..]).collect();
                let count = choices.iter().fold(1usize, |count, rows| count.saturating_mul(rows.len()));
                let needed = self.len().saturating_add(count);
                if count > 1 && needed > MOST {
                    let each = size_of::<Match>() + key_words * size_of::<(usize, Interval)>();
                    return Err(BuildError::own_limit(needed.saturating_mul(each), MOST * each));
                }
                visits.add(count * key_words);
                visits.check()?;
                for mut at in 0..count {
                    let mut own = Vec::with_capacity(choices.len());
                    for rows in choices.iter().rev() {
                        own.push(&rows[at % rows.len()]);
                        at /= rows.len();
                    }
                    own.reverse();
                    self.push_rows(rule, &own);
                }
            }
            self.firsts.push(self.matches.len() as u32);
        }
        Ok(())
    }

    /// Adds a product of one row for each field.
    fn push_rows(&mut self, rule: Match, rows: &[&FieldRow]) {
        let product = self.matches.len();
        let words = rows.iter().flat_map(|row| &row.words);
        for (to, intervals) in self.intervals.iter_mut().zip(words) {
            to.extend(intervals.iter().map(|&interval| (product, interval)));
        }
        let is_masked = rows.iter().any(|row| !row.masks.is_empty());
        let masks_of =
            |row: &&FieldRow| if row.masks.is_empty() { vec![(0, 0); row.words.len()] } else { row.masks.clone() };
        self.masks.push(if is_masked { rows.iter().flat_map(masks_of).collect() } else { Vec::new() });
        self.matches.push(rule);
    }

    /// Adds a product with its intervals of each word.
    fn push<T: IntoIterator<Item = Interval>>(&mut self, rule: Match, masks: Masks, of_word: impl Fn(usize) -> T) {
        let product = self.matches.len();
        for (word, intervals) in self.intervals.iter_mut().enumerate() {
            intervals.extend(of_word(word).into_iter().map(|interval| (product, interval)));
        }
        self.masks.push(masks);
        self.matches.push(rule);
    }

    /// Returns a bound on the heap bytes that building takes.
    ///
    /// A region of IPv4 5-tuples counts as 372 bytes, and one of the rule with the most regions as 472 more. If rules
    /// are kept as products, their intervals count instead of regions.
    pub(crate) fn build_bytes(set: &Lowered) -> usize {
        let key_words = set.schema().words().len();
        let masks = if set.ternary_words().is_empty() { 0 } else { 8 * key_words };
        // A growing vector has up to three times the bytes of its elements, old and new memory together. Each word has
        // an interval, each product a match, a number and masks.
        let product = size_of::<Match>() + size_of::<u32>() + size_of::<Masks>() + masks;
        let region = 3 * (key_words * size_of::<(usize, Interval)>() + product);
        // Rows before and after a union, their order, and each set with its number, hash and slots of a table.
        let united = 8 * (key_words + 1) + 4 + key_words * 84 + if masks > 0 { 3 * masks + 60 } else { 0 };
        let largest = match set.products() {
            None => set.by_rule().map(|(_, regions)| regions.len()).filter(|&regions| regions > 1).max(),
            // The rows of all sets stay until the products are built.
            Some(products) => Some(products.sets().iter().map(|sets| sets.boxes().len()).sum()),
        };
        let (_, intervals) = set.word_products();
        intervals.saturating_mul(region).saturating_add(largest.unwrap_or(0) * united)
    }

    pub(crate) fn len(&self) -> usize {
        self.matches.len()
    }

    /// Number of bytes of memory, including reserved ones.
    pub(crate) fn bytes(&self) -> usize {
        let intervals: usize = self.intervals.iter().map(|all| all.capacity() * size_of::<(usize, Interval)>()).sum();
        let masks: usize = self.masks.iter().map(|masks| masks.capacity() * size_of::<(u32, u32)>()).sum();
        let of_products = self.matches.capacity() * size_of::<Match>() + self.masks.capacity() * size_of::<Masks>();
        of_products + self.firsts.capacity() * size_of::<u32>() + intervals + masks
    }

    /// Returns the bits of a word that some product tests under a mask.
    pub(crate) fn tested(&self, word: usize) -> u32 {
        self.masks.iter().filter_map(|masks| masks.get(word)).fold(0, |bits, (_, mask)| bits | mask)
    }
}

/// Products of a rule with several regions.
///
/// Each product is a row of classes: the class of its masks, then for each word the class of its set of intervals.
/// Equal sets have the same class, so that rows are short and quickly compared. For example, `sport { 22, 80 } dport
/// { 1, 443 }` has four regions over the sets {22}, {80}, {1} and {443}. United by source port they are two rows with
/// the set {22, 80}.
struct United {
    sets: Classes,
    masks: Classes,
    rows: Vec<u32>,
    /// Number of classes of a row.
    width: usize,
}

/// Part of a set of a field: one set of intervals for each word of the field, and values under masks.
struct FieldRow {
    words: Vec<Vec<Interval>>,
    /// Value and mask of each word; empty if no word has a mask.
    masks: Masks,
}

/// Returns the rows of each set of a field, and counts a visit for each word of a box.
fn united(sets: &FieldSets, visits: &Visits) -> Result<Vec<Vec<FieldRow>>, BuildError> {
    let key_words = sets.boxes().key_words();
    let of_set = |number: u32| {
        visits.add(sets.range(number).len() * key_words);
        visits.check()?;
        if key_words == 1 && sets.of(number).all(|of| of.ternary.is_none()) {
            let words = vec![unite(sets.of(number).map(|of| (of.lo[0], of.hi[0])).collect())];
            return Ok(vec![FieldRow { words, masks: Vec::new() }]);
        }
        let united = United::of(sets.of(number), key_words, visits)?;
        let row = |product: &[u32]| FieldRow {
            words: (0..key_words).map(|word| united.intervals(product, word).collect()).collect(),
            masks: united.masks(product),
        };
        Ok(united.rows.chunks_exact(united.width).map(row).collect())
    };
    (0..sets.len() as u32).map(of_set).collect()
}

impl United {
    /// Unites regions of a rule: word by word, products that are equal in all other words become one.
    fn of<'a>(
        regions: impl ExactSizeIterator<Item = Region<'a>>,
        key_words: usize,
        visits: &Visits,
    ) -> Result<Self, BuildError> {
        let (room, width) = (Room { allowed: usize::MAX, visits }, 1 + key_words);
        let rows = Vec::with_capacity(regions.len() * width);
        let mut united = Self { sets: Classes::default(), masks: Classes::default(), rows, width };
        let mut before = None;
        for region in regions {
            united.push(region, before, &room)?;
            before = Some(region);
        }
        (1..width).try_for_each(|word| united.unite(word, &room))?;
        Ok(united)
    }

    /// Adds a region as a row.
    ///
    /// For a word that is equal in the region before, no class is searched for, because most words are equal.
    fn push(&mut self, region: Region<'_>, before: Option<Region<'_>>, room: &Room<'_>) -> Result<(), BuildError> {
        let last = self.rows.len().saturating_sub(self.width);
        let class = match before {
            Some(Region { ternary: None, .. }) if region.ternary.is_none() => self.rows[last],
            _ => self.masks.of(&flat(&masks(region)), room)?,
        };
        self.rows.push(class);
        for word in 0..region.lo.len() {
            let interval = [region.lo[word], region.hi[word]];
            let class = match before {
                Some(before) if [before.lo[word], before.hi[word]] == interval => self.rows[last + 1 + word],
                _ => self.sets.of(&interval, room)?,
            };
            self.rows.push(class);
        }
        Ok(())
    }

    /// Unites the rows that differ in one column only.
    fn unite(&mut self, column: usize, room: &Room<'_>) -> Result<(), BuildError> {
        let width = self.width;
        if self.rows.len() == width {
            return Ok(());
        }
        room.visits.add(self.rows.len());
        room.visits.check()?;
        let row = |at: u32| &self.rows[at as usize * width..][..width];
        let others = |at: u32| (&row(at)[..column], &row(at)[column + 1..]);
        // Fewer than 2^24 regions are ever lowered.
        let mut order: Vec<u32> = (0..(self.rows.len() / width) as u32).collect();
        order.sort_unstable_by(|&a, &b| others(a).cmp(&others(b)));
        let mut united = Vec::with_capacity(self.rows.len());
        for alike in order.chunk_by(|&a, &b| others(a) == others(b)) {
            united.extend_from_slice(row(alike[0]));
            if alike.len() > 1 {
                let sets = alike.iter().flat_map(|&at| in_pairs(self.sets.row(row(at)[column] as usize)));
                let set = flat(&unite(sets.collect()));
                let last = united.len() - width + column;
                united[last] = self.sets.of(&set, room)?;
            }
        }
        self.rows = united;
        Ok(())
    }

    fn masks(&self, product: &[u32]) -> Masks {
        in_pairs(self.masks.row(product[0] as usize)).collect()
    }

    fn intervals(&self, product: &[u32], word: usize) -> impl Iterator<Item = Interval> {
        in_pairs(self.sets.row(product[1 + word] as usize))
    }
}

/// Returns the pairs of words, one behind the other.
fn flat(pairs: &[(u32, u32)]) -> Vec<u32> {
    pairs.iter().flat_map(|&(a, b)| [a, b]).collect()
}

/// Returns the words two by two.
fn in_pairs(words: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    words.as_chunks().0.iter().map(|&[a, b]| (a, b))
}

/// Returns the masks of a region, without the bits that its intervals fix.
///
/// For example, 192.0.2.0 under 255.255.255.5 lies between 192.0.2.0 and 192.0.2.250, so bits 0 and 2 are left.
fn masks(Region { lo, hi, ternary }: Region<'_>) -> Masks {
    let Some((value, mask)) = ternary else { return Vec::new() };
    let left = |word: usize| mask[word] & !containing_prefix(lo[word], hi[word]);
    let masks: Masks = (0..lo.len()).map(|word| (value[word] & left(word), left(word))).collect();
    if masks.iter().all(|&(_, mask)| mask == 0) { Vec::new() } else { masks }
}

/// Returns the union of intervals, in order, none of which touch.
pub(crate) fn unite(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let touches = next.0 <= last.1.saturating_add(1);
        last.1 = if touches { last.1.max(next.1) } else { last.1 };
        touches
    });
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{ExpansionLimits, Priority, RuleId, lower};
    use crate::schema::{Field, Kind, Schema};
    use crate::test_rules::of_text;

    fn holds(products: &Products, product: usize, key: &[u32]) -> bool {
        let of_word = |word: usize| products.intervals[word].iter().filter(move |(of, _)| *of == product);
        let is_inside = |word: usize| of_word(word).any(|&(_, (lo, hi))| (lo..=hi).contains(&key[word]));
        let mut masks = products.masks[product].iter().zip(key);
        (0..key.len()).all(is_inside) && masks.all(|(&(value, mask), key)| key & mask == value)
    }

    /// Over three words of three bits, keys lie in a product of a rule exactly if they lie in one of its regions.
    #[test]
    fn products_hold_what_regions_hold() {
        let schema = Schema::new(None, (0..3).map(|at| Field::new(&format!("f{at}"), 3, Kind::Mask, None)).collect());
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            ((state >> 33) % below) as u32
        };
        let (mut regions, mut products) = (0, 0);
        for _ in 0..400 {
            let mut set = Lowered::empty(&schema);
            for line in 1..4 {
                let rule = Match { rule: RuleId::new(line, 1), priority: Priority::of_line(line) };
                for _ in 0..1 + random(9) {
                    // A quarter of the regions have a mask on some words.
                    let masked = random(4) / 3;
                    let [mut lo, mut hi, mut value, mut mask] = [[0; 3]; 4];
                    for word in 0..3 {
                        mask[word] = masked * random(2) * random(8);
                        value[word] = random(8) & mask[word];
                        let passes = |key: &u32| key & mask[word] == value[word];
                        let first = (random(2) * 4..8).chain(0..8).find(passes).expect("some value passes");
                        let last = first + random(2) * 3;
                        (lo[word], hi[word]) = (first, (first..=last.min(7)).rev().find(passes).unwrap_or(first));
                    }
                    let ternary = mask.iter().any(|&mask| mask != 0).then_some((&value[..], &mask[..]));
                    set.push(rule, Region { lo: &lo, hi: &hi, ternary });
                }
            }
            let all = Products::of(&set, &Visits::default()).expect("no limit");
            assert_eq!(all.firsts.len(), 1 + set.by_rule().count());
            for (rank, (rule, of)) in set.by_rule().enumerate() {
                let own = all.firsts[rank] as usize..all.firsts[rank + 1] as usize;
                assert!(!own.is_empty() && own.len() <= of.len() && own.clone().all(|at| all.matches[at] == rule));
                for key in (0..512).map(|key| [key & 7, key >> 3 & 7, key >> 6]) {
                    let want = of.clone().any(|at| set.regions().get(at).contains(&key));
                    assert_eq!(own.clone().any(|at| holds(&all, at, &key)), want, "{key:?} in {set:?}");
                }
            }
            (regions, products) = (regions + set.regions().len(), products + all.len());
        }
        assert!(products * 10 < regions * 9, "{products} products of {regions} regions");
    }

    #[test]
    fn a_rule_of_sets_is_one_product() {
        let hosts = "src { 192.0.2.1, 192.0.2.9, 2001:db8:1::5, 2001:db8:2::5 } ";
        let set = of_text(&format!("deny {hosts} sport {{ 22, 80 }} dport {{ 1, 2, 443 }}\npermit {hosts}\npermit"));
        for schema in set.schemas() {
            let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the limits");
            let all = Products::of(&lowered, &Visits::default()).expect("no limit");
            // Ports 1 and 2 are one interval.
            assert_eq!((lowered.regions().len(), &all.firsts[..]), (8 + 2 + 1, &[0, 1, 2, 3][..]));
        }
    }

    /// Every visit counts: as many as a build made are enough, and one less is not.
    #[test]
    fn uniting_is_held_to_its_visits() {
        let set = of_text("permit sport { 22, 80 } dport { 1, 443 }\npermit");
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the limits");
        let made = Visits::default();
        let all = Products::of(&lowered, &made).expect("no limit");
        assert_eq!((lowered.regions().len(), all.len()), (5, 2));
        assert!(made.made() > all.len() * all.intervals.len(), "{made:?}");
        for (most, is_enough) in [(made.made(), true), (made.made() - 1, false), (0, false)] {
            assert_eq!(Products::of(&lowered, &Visits::new(most)).is_ok(), is_enough, "{most} of {made:?}");
        }
    }

    /// Bits that an interval fixes are left out of a mask, so that no vector is read for them.
    #[test]
    fn masks_are_of_bits_that_the_interval_leaves_open() {
        let region = |lo: u32, hi: u32, mask: u32| {
            masks(Region { lo: &[lo], hi: &[hi], ternary: Some((&[lo & mask], &[mask])) })
        };
        assert_eq!(region(0xC000_0200, 0xC000_02FA, 0xFFFF_FF05), [(0, 5)]);
        assert_eq!(region(0x41, 0x47, 0xF1), [(1, 1)]);
        assert!(region(0x40, 0x4F, 0xFFFF_FFF0).is_empty());
    }
}
