//! Some regions of rules that have too many.

use crate::engines::shared::wide::Random;
use crate::rule::{Lowered, Region};

/// Maximum number of regions that are drawn from a product.
const EACH: usize = 16;

/// Returns the same rules with some regions of each product, drawn at random.
///
/// Keys for trials come from these, so that the time of a choice does not grow with the regions. The same rules give
/// the same regions.
pub(super) fn sample(set: &Lowered) -> Lowered {
    let mut out = Lowered::empty(set.schema());
    let (Some(products), mut random) = (set.products(), Random(2)) else { return set.clone() };
    let [mut lo, mut hi, mut value, mut mask] = [(); 4].map(|()| Vec::with_capacity(set.schema().words().len()));
    for (product, &rule) in products.rules().iter().enumerate() {
        for _ in 0..products.count(product).min(EACH) {
            [&mut lo, &mut hi, &mut value, &mut mask].into_iter().for_each(Vec::clear);
            for (sets, number) in products.of(product) {
                let boxes = sets.range(number);
                let part = sets.boxes().get(boxes.start + random.below(boxes.len()));
                lo.extend_from_slice(part.lo);
                hi.extend_from_slice(part.hi);
                let open = vec![0; part.lo.len()];
                let (own_value, own_mask) = part.ternary.unwrap_or((&open, &open));
                value.extend_from_slice(own_value);
                mask.extend_from_slice(own_mask);
            }
            let ternary = mask.iter().any(|&mask| mask != 0).then_some((&value[..], &mask[..]));
            out.push(rule, Region { lo: &lo, hi: &hi, ternary });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{ExpansionLimits, lower};
    use crate::test_rules::of_text;

    /// Every region drawn is one of its rule's, and no rule is left out.
    #[test]
    fn regions_are_those_of_the_rules() {
        let ports = (1..40).map(|port| (2 * port).to_string()).collect::<Vec<_>>().join(", ");
        let set = of_text(&format!("deny src 10.0.0.0/8\npermit sport {{ {ports} }} dport {{ {ports} }}\npermit"));
        for schema in set.schemas() {
            let all = lower(&set, schema, &ExpansionLimits::default()).expect("within the limits");
            let some = sample(&all);
            assert!(some.by_rule().map(|(rule, _)| rule).eq(all.by_rule().map(|(rule, _)| rule)));
            assert!(some.region_count() < 20 && all.region_count() > 1500);
            for ((_, drawn), (_, own)) in some.by_rule().zip(all.by_rule()) {
                for region in drawn.map(|at| some.regions().get(at)) {
                    assert!(own.clone().any(|at| all.regions().get(at) == region), "{region:?}");
                }
            }
        }
    }
}
