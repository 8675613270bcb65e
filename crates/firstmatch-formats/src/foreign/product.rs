//! Products: one set of values per field.

use std::rc::Rc;

use firstmatch_core::rule::{Conditions, Test, pack};
use firstmatch_core::schema::Family;

use super::values::{DST, FieldIndex, PROTO, SRC, Values};
use crate::native::INET;

/// Packets whose every field has a value of the field's set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Product([Option<Rc<Values>>; INET.len()]);

impl Product {
    /// Returns the packets of both products; `None` if there are none.
    pub(super) fn meet(&self, other: &Self) -> Option<Self> {
        let mut both = self.clone();
        for (own, other) in both.0.iter_mut().zip(&other.0) {
            let Some(values) = other else { continue };
            match own {
                None => *own = Some(Rc::clone(values)),
                Some(own) if Rc::ptr_eq(own, values) => {}
                Some(own) => {
                    let met = own.meet(values);
                    if met.is_empty() {
                        return None;
                    }
                    *own = Rc::new(met);
                }
            }
        }
        Some(both)
    }

    /// Returns the product of the packets that also have one of `values` in a field; `None` if there are none.
    pub(super) fn restrict(&self, field: FieldIndex, values: impl Into<Rc<Values>>) -> Option<Self> {
        let (mut one, values) = (Self::default(), values.into());
        if values.is_empty() {
            return None;
        }
        one.0[field] = Some(values);
        self.meet(&one)
    }

    /// Appends the packets of this product that are not in `other`, as disjoint products.
    ///
    /// The protocol is cut first, so that the pieces are few: ports and flags belong to few protocols.
    pub(super) fn minus(&self, other: &Self, family: Family, out: &mut Vec<Self>) {
        if self.meet(other).is_none() {
            return out.push(self.clone());
        }
        let mut rest = self.clone();
        for field in [PROTO].into_iter().chain((0..INET.len()).filter(|&field| field != PROTO)) {
            let Some(values) = &other.0[field] else { continue };
            out.extend(rest.restrict(field, values.complement(field, family)));
            let Some(inside) = rest.restrict(field, Rc::clone(values)) else { return };
            rest = inside;
        }
    }

    /// Whether a packet with these values, over the fields of [`INET`], is of the product.
    #[cfg(test)]
    pub(super) fn holds(&self, values: &[Option<u128>]) -> bool {
        self.0.iter().zip(values).all(|(own, value)| own.as_ref().is_none_or(|own| own.holds(*value)))
    }

    /// Returns the conditions of a rule for the product, over the fields of [`INET`].
    ///
    /// In a file of both families, addresses are of the family.
    pub(super) fn conditions(&self, family: Family, has_both: bool) -> Conditions {
        let mut packed = Vec::new();
        // The order in which people write them: protocol, addresses, the rest.
        for field in [PROTO].into_iter().chain((0..INET.len()).filter(|&field| field != PROTO)) {
            let tests = self.0[field].as_ref().and_then(|values| values.tests(field, family));
            let Some((negated, tests)) = tests else { continue };
            let of_family = Some(family).filter(|_| has_both && matches!(field, SRC | DST));
            let tests: Vec<(Option<Family>, Test)> = tests.into_iter().map(|test| (of_family, test)).collect();
            pack(field, negated, &tests, &mut packed);
        }
        Conditions::from_packed(&packed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::DPORT;
    use super::*;

    fn product(conditions: &[(FieldIndex, u128, u128)]) -> Product {
        let all = Product::default();
        let restrict = |p: Product, &(field, lo, hi): &_| p.restrict(field, Values::of([(lo, hi)])).expect("packets");
        conditions.iter().fold(all, restrict)
    }

    #[test]
    fn what_is_left_is_disjoint_and_whole() {
        let of = product(&[(PROTO, 0, 20)]);
        let without = product(&[(PROTO, 6, 6), (SRC, 5, 9), (DPORT, 80, 80)]);
        let mut left = Vec::new();
        of.minus(&without, Family::Ipv4, &mut left);
        assert_eq!(left.len(), 3);
        for (at, piece) in left.iter().enumerate() {
            assert!(piece.meet(&without).is_none() && piece.meet(&of).is_some());
            assert!(left[at + 1..].iter().all(|other| other.meet(piece).is_none()));
        }
        // A packet without ports is left, as those of other protocols are.
        let no_ports = Values::present(DPORT, Family::Ipv4).complement(DPORT, Family::Ipv4);
        let tcp = product(&[(PROTO, 6, 6), (SRC, 7, 7)]).restrict(DPORT, no_ports).expect("packets");
        assert_eq!(left.iter().filter(|piece| piece.meet(&tcp).is_some()).count(), 1);
        let mut apart = Vec::new();
        product(&[(PROTO, 17, 17)]).minus(&without, Family::Ipv4, &mut apart);
        assert_eq!(apart.len(), 1);
    }
}
